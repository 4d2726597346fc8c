#include "lower.hpp"

#include "cpu/backward.hpp"
#include "cpu/decode.hpp"
#include "cpu/precomputed_schedule.hpp"
#include "cpu/prefill.hpp"
#include "cpu/stage_schedules.hpp"
#include "gpu/decode.hpp"
#include "gpu/prefill.hpp"
#include "kernel/shared_memory.hpp"
#include "passes/gpu_passes.hpp"
#include "passes/scratch_on_heap.hpp"
#include "passes/transpose_squares.hpp"
#include "plans/kernel_plan.hpp"

#include <attune/ir/stores.hpp>

#include <cxxabi.h>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>

namespace attune::generators {
using namespace Halide;

namespace {

/// The name of a device's level.
std::string_view device_of(const Target& target) {
    return target.has_feature(Target::CUDA) ? "cuda" : target.has_feature(Target::Vulkan) ? "vulkan" : "opencl";
}

/// Which blocks the pass over the keys visits, as an output of its own.
Pipeline pipeline_of_block_kinds(kernel_frame& f, int vector, bool in_subblocks) {
    // Algorithm
    Func blocks("blocks");
    std::deque<kernel_frame> further;
    std::deque<subblocks> parts;
    const auto kind_of = [&](kernel_frame& of) {
        if (!in_subblocks) return of.block_kind(of.visible(of.core.scores));
        return subblocks::kind_of(parts.emplace_back(of).visits_of_block(f.kb, f.qt, f.h, f.b));
    };
    Expr is = f.core.has_core() ? kind_of(f) : cast<uint8_t>(0);
    for (const plan& core : f.core.others) is = kernel_frame::joined_kinds(is, kind_of(further.emplace_back(f, core)));
    blocks(f.kb, f.qt, f.h, f.b) = is;

    // Schedule
    for (subblocks& each : parts) schedule_blocks(each, f, vector, LoopLevel(blocks, f.qt));
    for (int dim = 0; dim < 4; ++dim) blocks.output_buffer().dim(dim).set_min(0);
    blocks.vectorize(f.kb, vector, TailStrategy::GuardWithIf);
    return Pipeline(blocks);
}

/// What is stored, an output for each tensor.
Pipeline pipeline_of_stores(const kernel_frame& f, int lanes) {
    std::vector<Func> results;
    each_stored(f.graph(), [&](std::size_t input) {
        stored_tensor stored(f, static_cast<int>(input));
        schedule_stores(stored, f, lanes);
        results.push_back(stored.result);
    });
    if (results.empty()) return {};
    Pipeline all(results);
    all.add_custom_lowering_pass(new allow_empty_inputs);
    return all;
}

/// A pass that changes nothing.
class told_to : public Internal::IRMutator {
public:
    told_to(std::string pass, pass_observer observer) : pass_(std::move(pass)), observer_(std::move(observer)) {}
    using IRMutator::mutate;
    Internal::Stmt mutate(const Internal::Stmt& all) override {
        observer_(pass_, all);
        return all;
    }

private:
    std::string pass_;
    pass_observer observer_;
};

/// A class's name, without its namespaces.
std::string name_of(const std::type_info& type) {
    int failed = 0;
    const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(type.name(), nullptr, nullptr, &failed),
                                                      std::free);
    const std::string whole = failed == 0 ? text.get() : type.name();
    const std::size_t last = whole.rfind("::");
    return last == whole.npos ? whole : whole.substr(last + 2);
}

/// A copy of the pipeline that reports the statement before the first pass and after every pass. The original still owns
/// the passes.
Pipeline observed(Pipeline all, const pass_observer& observer) {
    Pipeline result(all.outputs());
    result.add_custom_lowering_pass(new told_to("halide", observer));
    for (const CustomLoweringPass& each : all.custom_lowering_passes()) {
        result.add_custom_lowering_pass(each.pass, nullptr);
        result.add_custom_lowering_pass(new told_to(name_of(typeid(*each.pass)), observer));
    }
    return result;
}

}  // namespace

Module lowered_kernel::module(const std::string& symbol, const Target& target, const pass_observer& observer) const {
    Pipeline compiled = attention;
    if (target.has_feature(Target::Vulkan)) compiled.add_custom_lowering_pass(new words_for_vulkan);
    if (target.has_feature(Target::OpenCL)) compiled.add_custom_lowering_pass(new words_for_opencl);
    if (target.has_feature(Target::CUDA)) compiled.add_custom_lowering_pass(new named_choices);
    if (observer) compiled = observed(compiled, observer);
    const Module made = compiled.compile_to_module(arguments, symbol, target);
    Module ordered(made.name(), made.target());
    ordered.set_any_strict_float(made.any_strict_float());
    const bool on_gpu = target.has_gpu_feature();
    // Device code and what is known of it once it is loaded: all modules call theirs the same, and are to be linked.
    std::map<std::string, Expr> renamed;
    for (const auto& buffer : made.buffers()) {
        const std::string before = buffer.name(), now = symbol + "_" + before;
        Buffer<>(buffer).set_name(now);
        renamed[before + ".buffer"] = Internal::Variable::make(type_of<halide_buffer_t*>(), now + ".buffer");
        ordered.append(buffer);
    }
    for (Internal::LoweredFunc function : made.functions()) {
        if (function.name == symbol) {
            const std::size_t inputs = function.args.size() - order.size();
            const std::vector<Internal::LoweredArgument> outputs(
                function.args.begin() + static_cast<std::ptrdiff_t>(inputs), function.args.end());
            for (std::size_t i = 0; i < order.size(); ++i)
                function.args[inputs + i] = outputs[static_cast<std::size_t>(order[i])];
        }
        if (const int shared = shared_memory(function.body), most = most_shared_memory(device_of(target));
            shared > most)
            throw no_room("it needs " + std::to_string(shared) +
                          " bytes of a GPU's shared memory, of which there are " + std::to_string(most) +
                          "; a schedule with smaller blocks may fit: emit --schedule");
        if (!renamed.empty()) function.body = Internal::substitute(renamed, function.body);
        if (!on_gpu) function.body = scratch_on_heap(function.body);
        if (observer && function.name == symbol) observer("module", function.body);
        ordered.append(function);
    }
    return ordered;
}

std::vector<Module> lowered_kernel::beside(const std::string& symbol, const Target& target) const {
    std::vector<Module> all{Pipeline(blocks).compile_to_module(arguments, symbol + "_blocks", target)};
    if (stores.defined()) all.push_back(Pipeline(stores).compile_to_module(arguments, symbol + "_stores", target));
    return all;
}

namespace {

/// The passes that a plan names are those that rewrite the statement.
void check_passes(const Pipeline& all, const kernel_plan& planned) {
    std::string expected, got;
    for (const pass_plan& each : planned.passes)
        if (!each.of_module) expected += std::string(each.name) + " ";
    for (const CustomLoweringPass& each : Pipeline(all).custom_lowering_passes())
        got += name_of(typeid(*each.pass)) + " ";
    if (expected != got) throw std::logic_error("expected the passes of the plan, " + expected + ", got " + got);
}

/// The pass over the keys, by the way in which a schedule cuts it.
template <class Cut> struct state_of {
    using type = prefill_state;
};
template <> struct state_of<cpu_decode> {
    using type = decode_state;
};
template <> struct state_of<gpu_decode> {
    using type = gpu_decode_state;
};

/// The functions of a kernel: its parts one after the other, as output_plan::place counts them.
template <class Cut> Pipeline pipeline_of(const Cut& cut, kernel_frame& frame, const precomputed_tensors& first) {
    const plan& core = frame.core;
    const kernel_plan& planned = frame.planned();
    computed_tensors before(frame, planned.before);
    std::deque<kernel_frame> further;
    std::deque<typename state_of<Cut>::type> states;  // one a core
    std::vector<const row_state*> of_rows;
    std::vector<kernel_frame*> frames;
    const auto add_state = [&](kernel_frame& of) {
        frames.push_back(&of);
        of_rows.push_back(&states.emplace_back(of));
    };
    for (const key_pass* each : planned.passes_over_keys())
        add_state(each->core == 0 ? frame
                                  : further.emplace_back(frame, core.others[static_cast<std::size_t>(each->core) - 1]));
    if constexpr (std::is_same_v<Cut, cpu_decode>)
        decode_state::share_tasks(states, std::get<decode_plan>(planned.body).tasks);
    kernel_stages all{frame, std::move(before), epilogue(frame, of_rows), {}, {}};
    std::vector<Func> outputs;
    if (!all.rows.empty()) outputs.push_back(all.rows.outputs);
    // On a GPU a thread makes pairs one by one: blocks of one, whose place nothing has to be divided for.
    std::optional<kernel_frame> single;
    if (frame.request.on_gpu()) single.emplace(frame, block_sizes{1, 1});
    for (const pair_outputs& each : planned.pairs)
        outputs.push_back(all.pairs.emplace_back(single ? *single : frame, all.rows, each).outputs);
    if (core.saved_output >= 0) frame.inputs.computed[core.saved_output] = all.rows.saved_output();
    all.after = computed_tensors(frame, planned.after);
    for (const output_plan& each : planned.outputs)
        if (each.by == maker::tokens) outputs.push_back(frame.inputs.computed.at(each.node));
    for (const output_plan& each : planned.outputs)
        if (each.by == maker::precomputed) outputs.push_back(first.of(each.node).written);

    Pipeline attention(outputs);
    if constexpr (std::is_same_v<Cut, cpu_prefill> || std::is_same_v<Cut, cpu_decode>) {
        std::vector<std::conditional_t<std::is_same_v<Cut, cpu_prefill>, prefill_core, decode_core>> cores;
        for (std::size_t i = 0; i < states.size(); ++i) cores.push_back({states[i], *frames[i]});
        apply(cut, all, cores, attention);
    } else {
        apply(cut, all, states.empty() ? nullptr : &states.front(), attention);
    }
    attention.add_custom_lowering_pass(new allow_empty_inputs);
    if (!frame.request.on_gpu()) attention.add_custom_lowering_pass(new transpose_squares);
    return attention;
}

Pipeline pipeline_of(const cpu_gradient& cut, kernel_frame& frame, const precomputed_tensors&) {
    computed_tensors projected(frame, frame.planned().before);
    backward_sweep sweep(frame);
    Pipeline gradients(sweep.outputs);
    for (computed_tensor& each : projected.all) schedule_tensor(each, frame, cut.lanes);
    apply(cut, sweep, frame, gradients);
    gradients.add_custom_lowering_pass(new allow_empty_inputs);
    gradients.add_custom_lowering_pass(new transpose_squares);
    return gradients;
}

}  // namespace

lowered_kernel lower(const kernel_request& request) {
    const kernel_plan planned = plan_kernel(request);
    kernel_frame frame(request, &planned);
    precomputed_tensors first(frame);
    schedule_precomputed(first, request);
    const Pipeline all = std::visit([&](const auto& cut) { return pipeline_of(cut, frame, first); }, request.schedule);
    check_passes(all, planned);
    const bool in_subblocks = !decodes(request.schedule) && !is_for_gradient(request.schedule);
    if (!request.on_gpu())
        return {frame.inputs.arguments(), all, planned.places(), pipeline_of_stores(frame, lanes_of(request.schedule)),
                pipeline_of_block_kinds(frame, lanes_of(request.schedule), in_subblocks)};
    kernel_request on_cpu = request;  // block queries run on the host
    on_cpu.target = &host_of_gpus();
    kernel_frame there(on_cpu);
    return {frame.inputs.arguments(),
            all,
            planned.places(),
            {},
            pipeline_of_block_kinds(there, on_cpu.target->lanes, false)};
}

}  // namespace attune::generators
