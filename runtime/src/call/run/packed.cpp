#include "call/run/packed.hpp"
#include "base/text.hpp"
#include "call/shape/axis_use.hpp"
#include "call/shape/view_part.hpp"

#include <attune/runtime/error.hpp>

#include <algorithm>

namespace attune::detail {
namespace {

constexpr std::string_view packed_name = "cu_seqlens_q";

void check_starts(const tensor& t) {
    static constexpr std::string_view axes[] = {"batch + 1"};
    check_alone(packed_name, t, axes, false);
    if (t.type() != element_type::i32)
        fail(say("i32 elements in ", packed_name), shown(packed_name, t), "a tensor of std::int32_t");
    if (t.where() != memory::host)
        fail(say(packed_name, " in host memory"), "memory of a GPU", "a copy on the host, or a call for each sequence");
    if (t.extent(0) < 1)
        fail(say("at least one element in ", packed_name), shown(packed_name, t),
             "0 and where each sequence's queries end");
}

void read_values(const tensor& starts, std::pmr::vector<std::int32_t>& values) {
    values.resize(static_cast<std::size_t>(starts.extent(0)));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<const std::int32_t*>(starts.data())[static_cast<std::int64_t>(i) * starts.stride(0)];
}

/// From 0 on, never falling.
void check_order(std::span<const std::int32_t> starts) {
    for (std::size_t i = 0; i < starts.size(); ++i)
        if (const std::int32_t least = i == 0 ? 0 : starts[i - 1]; starts[i] < least || (i == 0 && starts[i] != 0))
            fail(say(packed_name, " from 0 on, each no less than the one before"), say(starts[i], " at ", i),
                 "where each sequence's queries begin, and where the last one's end");
}

/// From the sequence `first` on, `alone` or with its neighbours.
packed_call::run_of_sequences run_from(std::span<const std::int32_t> starts, std::size_t first, bool alone) {
    if (first + 1 >= starts.size()) return {};
    const auto queries = [&](std::size_t b) { return starts[b + 1] - starts[b]; };
    std::size_t end = first + 1;
    while (!alone && end + 1 < starts.size() && queries(end) == queries(first)) ++end;
    return {static_cast<std::int64_t>(first), static_cast<std::int64_t>(end - first), starts[first], queries(first)};
}

/// The facts of an argument that are needed to take the part of a run of sequences.
struct argument_axes {
    int batch = -1, query = -1;
    explicit argument_axes(std::span<const axis_kind> axes) {
        for (std::size_t i = 0; i < axes.size(); ++i) {
            if (axes[i] == axis_kind::batch) batch = static_cast<int>(i);
            if (axes[i] == axis_kind::query) query = static_cast<int>(i);
        }
    }
};
argument_axes axes_of(const input_declaration& d) {
    std::array<axis_kind, max_rank> kinds{};
    for (std::size_t i = 0; i < d.rank; ++i) kinds[i] = d.axes[i].kind;
    return argument_axes(std::span(kinds).first(d.rank));
}

class slicer {
public:
    explicit slicer(std::span<const std::int32_t> starts)
        : sequences_(static_cast<std::int64_t>(starts.size()) - 1), queries_(starts.back()) {}

    /// Throws where the whole does not fit cu_seqlens_q. `broadcasts`: an extent of 1 stands for any.
    void check(std::string_view name, const tensor& t, const argument_axes& axes, bool broadcasts) const {
        if (is_packed(t, axes, broadcasts)) {
            if (t.extent(axes.query) != queries_)
                fail(say("query extent ", queries_, " in ", name, ", where ", packed_name, " ends"), shown(name, t),
                     "the queries of all sequences one after another");
            if (axes.batch >= 0 && t.extent(axes.batch) != 1)
                fail(say("batch extent 1 in ", name, ", whose queries ", packed_name, " gives to the sequences"),
                     shown(name, t), "the queries of all sequences one after another");
        } else if (axes.batch >= 0 && t.extent(axes.batch) != sequences_ &&
                   (t.extent(axes.batch) != 1 || !broadcasts)) {
            fail(say("batch extent ", sequences_, broadcasts ? " or 1 in " : " in ", name,
                     ", as there are sequences in ", packed_name),
                 shown(name, t), say("a ", packed_name, " of one element more than there are sequences"));
        }
    }

    /// Without a batch axis the queries of a sequence beside them cannot be told from a run's first.
    bool needs_runs_of_one(const tensor& t, const argument_axes& axes, bool broadcasts) const {
        return is_packed(t, axes, broadcasts) && axes.batch < 0;
    }

    tensor part(const tensor& t, const argument_axes& axes, bool broadcasts,
                const packed_call::run_of_sequences& of) const {
        view_part made(t);
        if (is_packed(t, axes, broadcasts)) {
            made.cut(axes.query, of.first_query, of.queries);
            if (axes.batch >= 0) made.lay(axes.batch, of.count, of.queries * t.stride(axes.query));
        } else if (axes.batch >= 0 && t.extent(axes.batch) == sequences_) {
            made.cut(axes.batch, of.first, of.count);
        }
        return made.view();
    }

private:
    /// If all sequences together have one query, an extent of 1 is that query: sequences without queries have none of
    /// it.
    bool is_packed(const tensor& t, const argument_axes& axes, bool broadcasts) const {
        if (axes.query < 0 || !broadcasts || t.extent(axes.query) != 1) return axes.query >= 0;
        return queries_ == 1 && (axes.batch < 0 || t.extent(axes.batch) == 1);
    }

    std::int64_t sequences_, queries_;
};

argument_axes over_batch() {
    static constexpr axis_kind axes[] = {axis_kind::batch};
    return argument_axes(axes);
}

/// Visits every tensor of the call, with its axes and whether it broadcasts.
template <class Visit> void each_tensor(const graph_ir& graph, const matched_arguments& given, Visit visit) {
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
        if (const input_declaration& d = graph.inputs[i]; !d.is_scalar)
            visit(*given.inputs[i], axes_of(d), !is_core(d) || axes_of(d).query < 0);
    if (given.kv_lengths) visit(*given.kv_lengths, over_batch(), true);
    for (std::size_t i = 0; i < graph.outputs.size(); ++i)
        if (given.outputs[i])
            visit(*given.outputs[i], argument_axes(axes_of_output(graph, graph.outputs[i]).view()), false);
}

/// Each by itself, before a part of it is taken.
void check_each(const graph_ir& graph, const matched_arguments& given) {
    static constexpr std::string_view axes[] = {"batch"};
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
        if (!graph.inputs[i].is_scalar) check_input_alone(graph.inputs[i], given.inputs[i]->view);
    for (std::size_t i = 0; i < graph.outputs.size(); ++i)
        if (given.outputs[i]) check_output_alone(graph, graph.outputs[i], given.outputs[i]->view);
    if (given.kv_lengths) check_alone(given.kv_lengths->name, given.kv_lengths->view, axes, false);
    each_tensor(graph, given, [](const named_argument& each, const argument_axes&, bool) {
        if (each.view.where() == memory::opencl)
            fail(say(each.name, " in host memory or CUDA's, in a call with ", packed_name), "a cl_mem",
                 "a call for each sequence");
    });
}

}  // namespace

bool takes_packed_queries(const graph_ir& graph) {
    return std::ranges::find(graph.inputs, packed_name, &input_declaration::name) == graph.inputs.end();
}

const named_argument* packed_by(const kernel_table& table, std::span<const named_argument> arguments) {
    check_version(table);
    if (!takes_packed_queries(table.graph)) return nullptr;
    const auto found = std::ranges::find(arguments, packed_name, &named_argument::name);
    return found == arguments.end() ? nullptr : &*found;
}

std::optional<whole_batch> needs_whole_batch(const graph_ir& graph) {
    for (const output_declaration& output : graph.outputs)
        if (argument_axes(axes_of_output(graph, output).view()).batch < 0)
            return whole_batch{say(output.name, ", which sums over the batch"), "a call for each sequence"};
        else if (kind_of(graph, output) == kind::precomputed)
            return whole_batch{say(output.name, ", as long as a call's numbers say"), "a call for each sequence"};
    const axis_use use = use_of_axes(graph, operation::b, [](axis_kind axis) { return axis == axis_kind::batch; });
    for (const instruction& n : graph.nodes) {
        if (n.op == operation::queries && states_length(n))
            return whole_batch{"queries(...) with a length of their own", "a call for each sequence"};
        if (n.op == operation::batches || use == axis_use::by_extent)
            return whole_batch{"the size of the batch in it", "a scalar of the variant that the caller computes"};
        if (n.op == operation::keep)
            return whole_batch{"random numbers of each batch element in it", "a call for each sequence"};
    }
    if (use == axis_use::apart) return std::nullopt;
    return whole_batch{
        use == axis_use::read_elsewhere ? "a batch axis that is read elsewhere than at b" : "b as a number in it",
        "an input over batch that is read at b"};
}

packed_call::packed_call(const kernel_table& table, std::span<const named_argument> arguments, const options& how,
                         bound_call::outputs wanted, bool explain) {
    const matched_arguments whole = match(table, arguments, wanted == bound_call::outputs::needed, memory_);
    starts_ = whole.cu_seqlens_q->view;
    check_starts(starts_);
    if (const auto found = needs_whole_batch(table.graph))
        fail(say("a formula of one sequence at a time in ", table.variant, ", for a call with ", packed_name),
             found->what, found->attempt);
    check_each(table.graph, whole);
    read_values(starts_, seen_);
    check_order(seen_);
    const slicer slices(seen_);
    bool alone = false;
    each_tensor(table.graph, whole, [&](const named_argument& each, const argument_axes& axes, bool broadcasts) {
        slices.check(each.name, each.view, axes, broadcasts);
        alone = alone || slices.needs_runs_of_one(each.view, axes, broadcasts);
    });
    for (std::size_t next = 0; parts_.empty() || next + 1 < seen_.size(); next += parts_.back().of.count) {
        const run_of_sequences of = run_from(seen_, next, alone);
        part& made = parts_.emplace_back(of, arguments, memory_);
        each_tensor(table.graph, whole, [&](const named_argument& each, const argument_axes& axes, bool broadcasts) {
            made.arguments[static_cast<std::size_t>(&each - arguments.data())].view =
                slices.part(each.view, axes, broadcasts, of);
        });
        made.call.emplace(table, made.arguments, how, wanted, explain, of.first, of.first_query);
    }
    check_apart(table.graph, whole);
}

void packed_call::check_values() const {
    for (const part& each : parts_) each.call->check_values();
}

bool packed_call::has_changed() const {
    const auto* const starts = static_cast<const std::int32_t*>(starts_.data());
    for (std::size_t i = 0; i < seen_.size(); ++i)
        if (starts[static_cast<std::int64_t>(i) * starts_.stride(0)] != seen_[i]) return true;
    return false;
}

bool packed_call::is_for_device() const { return is_device(parts_.front().call->chosen().target); }

void packed_call::run(int threads) const {
    scratch_memory blocks;
    std::pmr::vector<const bound_call*> calls(&blocks);
    calls.reserve(parts_.size());
    for (const part& each : parts_) calls.push_back(&*each.call);
    bound_call::run_all(calls, threads);
}

}  // namespace attune::detail
