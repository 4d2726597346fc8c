#include "tuner/trials.hpp"

#include "analysis/plan.hpp"
#include "base/formatting.hpp"
#include "tuner/recurrent_calls.hpp"

#include <attune/ir/gradient_outputs.hpp>
#include <attune/runtime/detail/call.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <span>

namespace attune::generators::inline tuner {
namespace {

/// Scalars that a graph reads: what keeps scores in a usual range, and widths that hide something.
std::map<std::string, double> numbers_for(const graph_ir& graph, const call_shape& call) {
    std::map<std::string, double> numbers;
    for (const input_declaration& input : graph.inputs)
        if (input.is_scalar && input.name != "scale")
            numbers.emplace(input.name,
                            input.element == element_type::i32 ? static_cast<double>(usual_width(call)) : 0.5);
    return numbers;
}

support::shape shape_of(const kernel_request& of, const call_shape& call) {
    return {.batches = call.batches,
            .heads = call.heads,
            .key_heads = call.key_heads,
            .queries = call.queries,
            .keys = call.keys,
            .depth = of.depths.depth,
            .value_depth = of.depths.value_depth};
}

/// Random inputs, and outputs, in a kernel's element types.
support::workload typed_workload(const listed_kernel& of, const call_shape& shape,
                                 const std::vector<std::int32_t>& key_lengths) {
    const graph_ir& graph = of.of->graph;  // that of calls: a kernel may go over a list of keys
    support::workload w(graph, shape_of(of.request, shape), 17, numbers_for(graph, shape));
    if (!key_lengths.empty()) w.set_lengths(key_lengths);
    keep_states_finite(w, graph);
    convert(w, of.request);
    return w;
}

double tolerance_of(const element_types& types) {
    double worst = 5e-5;
    for (const element_type e : {types.query, types.key, types.value, types.output})
        worst = std::max(worst, e == element_type::bf16 ? 2e-2 : e == element_type::f16 ? 3e-3 : 0.0);
    return worst;
}

/// Whether scores have terms such as slope * (kv_idx - q_idx), which f32 rounds the more coarsely the more keys there
/// are.
bool grows_with_distance(const graph_facts& facts) {
    return std::ranges::any_of(facts.graph.nodes, [&](const instruction& node) {
        if (node.op != operation::to_real) return false;
        const dependence& of = facts.depends[static_cast<std::size_t>(node.arguments[0])];
        return of.query || of.key;
    });
}

}  // namespace

void convert(support::workload& call, const kernel_request& of) {
    const graph_ir& graph = of.graph();
    for (const input_declaration& input : graph.inputs)
        if (input.element == element_type::any) call.convert(input.name, element_of(input, of.types));
    for (const output_declaration& output : graph.outputs) {
        if (!has_open_element(graph, output)) continue;
        const int input = input_of_gradient(graph, output);
        call.convert(output.name,
                     input < 0 ? of.types.output : element_of(graph.inputs[static_cast<std::size_t>(input)], of.types));
    }
}

checked_calls::checked_calls(const listed_kernel& of, std::string_view target)
    : of_(of), target_(target), grows_with_distance_(grows_with_distance(*of.request.facts)) {}

support::workload checked_calls::workload_of(const check_call& call) const {
    return typed_workload(of_, call.shape, call.key_lengths);
}

const reference::results& checked_calls::expected(const check_call& call) {
    {
        const std::lock_guard lock(mutex_);
        if (const auto known = expected_.find(call); known != expected_.end()) return known->second;
    }
    const support::workload w = workload_of(call);
    reference::results made = reference::evaluate(of_.of->graph, w.reference_arguments(),
                                                  {.rows = call.rows,
                                                   .keep_visible = false,
                                                   .depth = of_.request.depths.depth,
                                                   .value_depth = of_.request.depths.value_depth});
    const std::lock_guard lock(mutex_);
    return expected_.emplace(call, std::move(made)).first->second;
}

std::string checked_calls::wrong(const kernel_table& made, const check_call& call) {
    const reference::results& right = expected(call);
    support::workload w = workload_of(call);
    const call_shape& s = call.shape;
    const std::string where = fmt::format("{} queries and {} keys, {} x {} heads{}", s.queries, s.keys, s.batches,
                                          s.heads, call.key_lengths.empty() ? "" : ", with key lengths");
    try {
        attune::detail::call(made, w.arguments(), {.threads = 1, .target = target_});
    } catch (const std::exception& problem) {
        return where + ": " + problem.what();
    }
    for (const reference::array& output : right.outputs) {
        constexpr double exact_distance = 1024;  // of keys, up to which rounding is within the tolerance anyway
        double largest = 1;
        for (const double x : output.values)
            if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
        const double error = w.largest_error(right, output.name),
                     allowed = tolerance_of(of_.request.types) * largest *
                               (grows_with_distance_ ? std::max(1.0, static_cast<double>(s.keys) / exact_distance) : 1);
        if (!(error <= allowed))
            return fmt::format(
                "{}: expected {} within {:.1e} of the double-precision reference, got an error of {:.1e}", where,
                output.name, allowed, error);
    }
    return {};
}

std::string checked_calls::wrong(const kernel_table& made, const schedule& cut) {
    const std::int64_t queries = blocks_of(cut).query_block, keys = blocks_of(cut).key_block;
    const std::int64_t tile = tile_of(cut).query_block, key_tile = tile_of(cut).key_block;
    const int splits = splits_of(cut);
    const auto at = [](std::int64_t last, std::initializer_list<std::int64_t> rows) {
        std::set<std::int64_t> within;
        for (const std::int64_t row : rows)
            if (row >= 0 && row <= last) within.insert(row);
        within.insert(last);
        return std::vector<std::int64_t>(within.begin(), within.end());
    };
    const std::int64_t many = 2 * queries + 1;
    const check_call calls[] = {
        {{1, 1, 1, queries + 1, keys + 1}, {}, {}},
        {{2, 2, 1, many, 2 * keys + key_tile + 1},
         at(many - 1, {0, tile - 1, tile, queries - 1, queries, 2 * queries - 1}),
         {static_cast<std::int32_t>(keys), static_cast<std::int32_t>(2 * keys - 1)}},
        {{1, 2, 2, queries - 1, keys - 1}, at(queries - 2, {0, tile - 1, tile, tile + 1}), {}},
        {{1, 1, 1, queries, keys}, at(queries - 1, {0, tile - 1}), {}},
        {{1, 1, 1, 1, 1}, {}, {}},
        // Each split of the keys has a second block, the first of them a third.
        {{1, 2, 1, 1, splits > 1 ? (2 * splits + 1) * keys - 1 : 0}, {}, {}},
        // The queries of a gradient have two parts, the second of them a block less.
        {{1, 2, 1, is_for_gradient(cut) ? 2 * fewest_blocks_of_part * queries + 1 : 0, key_tile + 1}, {}, {}},
    };
    // The last chunk of a recurrence is whole, or has a token, or all but one; heads share keys and perhaps states.
    const check_call calls_of_tokens[] = {{{1, 1, 1, queries + 1, queries + 1}, {}, {}},
                                          {{2, 2, 1, 2 * queries, 2 * queries}, {}, {}},
                                          {{1, 2, 2, 3 * queries - 1, 3 * queries - 1}, {}, {}},
                                          {{1, 1, 1, 1, 1}, {}, {}}};
    for (const check_call& call : is_for_recurrence(cut) ? std::span<const check_call>(calls_of_tokens) : calls) {
        if (call.shape.queries < 1 || call.shape.keys < 1) continue;
        if (std::string problem = wrong(made, call); !problem.empty()) return problem;
    }
    return {};
}

timed_call::timed_call(const listed_kernel& of, const call_shape& shape, int threads, device_access* there)
    : workload_(typed_workload(of, shape, {})),
      arguments_(arguments_in_place(workload_, of.of->graph)),
      how_{.threads = threads} {
    if (!there) return;
    how_.context = there->context(), how_.stream = there->stream();
    for (attune::detail::named_argument& each : arguments_) {
        if (each.is != attune::detail::named_argument::form::view) continue;
        device_access::copy copy = there->copy_of(each.view);
        each.view = copy.view;
        there_.push_back(std::move(copy.memory));
    }
}

double timed_call::seconds(const kernel_table& made, double at_least) {
    using clock = std::chrono::steady_clock;
    double best = std::numeric_limits<double>::infinity(), all = 0;
    do {
        const auto start = clock::now();
        attune::detail::call(made, arguments_, how_);
        const double seconds = std::chrono::duration<double>(clock::now() - start).count();
        best = std::min(best, seconds), all += seconds;
    } while (all < at_least);
    return best;
}

round_times timed_call::seconds(const kernel_table& incumbent, const kernel_table& challenger, double at_least,
                                std::size_t round) {
    const bool is_turned = round % 2 != 0;
    const double first = seconds(is_turned ? challenger : incumbent, at_least),
                 second = seconds(is_turned ? incumbent : challenger, at_least);
    return is_turned ? round_times{second, first} : round_times{first, second};
}

}  // namespace attune::generators::inline tuner
