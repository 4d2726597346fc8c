#include "base/text.hpp"
#include "call/run/notices.hpp"
#include "call/run/packed.hpp"
#include "call/run/parts.hpp"
#include "call/shape/projections.hpp"
#include "execution/threads.hpp"

#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/error.hpp>

#include <algorithm>
#include <cstdlib>

namespace attune::detail {
namespace {

std::string_view name_of(kind k) {
    switch (k) {
        case kind::output: return "output";
        case kind::row: return "row";
        case kind::scores: return "scores";
        case kind::weights: return "weights";
        case kind::column: return "column";
        case kind::head_mean: return "head mean";
        case kind::tokens: return "tokens";
        case kind::gradient: return "gradient";
        case kind::precomputed: return "precomputed";
        case kind::states: return "states";
        case kind::last_state: return "last state";
        default: return "";
    }
}

std::int64_t bytes_of(const explanation::argument& a) { return detail::bytes_of(a.shape, a.element); }

/// The generators' sentences about the graph, and those about this call.
std::vector<std::string> meaning_of(const kernel_table& table, const explanation& of, bool with_lengths) {
    std::vector<std::string> all(table.notes.conventions.begin(), table.notes.conventions.end());
    if (of.query_length > 0 && of.query_length < of.key_length && is_top_left(table))
        all.push_back(say("fewer queries than keys: ", what_causal_counts(of.query_length)));
    if (of.heads != of.key_heads && of.key_heads > 0)
        all.push_back(say("query head h reads key head h / ", of.heads / of.key_heads));
    if (with_lengths) all.push_back("keys from kv_lengths(b) on are never read");
    return all;
}

}  // namespace

void call(const kernel_table& table, std::span<const named_argument> arguments, const options& how) {
    if (packed_by(table, arguments)) {
        const packed_call packed(table, arguments, how, bound_call::outputs::needed, false);
        packed.check_values();
        note_few_queries(table, packed);
        return packed.run(threads_of(how.threads));
    }
    if (const auto parts = parted_call::of(table, arguments, how)) {
        parts->check_values();
        note_few_queries(table, parts->first());
        return parts->run(threads_of(how.threads));
    }
    bound_call bound(table, arguments, how, bound_call::outputs::needed, false);
    bound.check_values();
    note_few_queries(table, bound);
    if (bound.nothing_to_do()) return bound.write_empty_sums();
    bound.run(bound.threads());
}

block_map blocks(const kernel_table& table, std::span<const named_argument> arguments, const options& how) {
    if (packed_by(table, arguments))
        fail("a call without cu_seqlens_q, to say which blocks it visits", "one with it",
             "the arguments of one sequence");
    if (const auto parts = parted_call::of(table, arguments, how, bound_call::outputs::optional)) {
        parts->check_values();
        return parts->blocks();
    }
    bound_call bound(table, arguments, how, bound_call::outputs::optional, false);
    bound.check_values();
    return bound.blocks();
}

/// A thread's note on a block of keys: whether it is visited, and which of its parts, eight at most.
constexpr std::size_t bytes_of_a_verdict = 9;

namespace {

/// The call's names, extents and types, and its kernel.
void set_kernel(explanation& result, const kernel_table& table, const bound_call& bound) {
    const kernel& k = bound.chosen();
    const call_shape& shape = bound.shape();
    result.variant = table.variant;
    result.formula = table.graph.text;
    result.kernel = k.symbol;
    result.target = k.target;
    result.why = bound.why();
    result.shapes = bound.why_shapes();
    result.schedule = k.schedule ? k.schedule : "{}";
    result.batches = shape[axis_kind::batch];
    result.heads = shape[axis_kind::head];
    result.key_heads = bound.key_splits() ? bound.stacked_heads() : shape[axis_kind::key_head];
    result.query_length = shape[axis_kind::query];
    result.key_length = shape[axis_kind::key];
    result.depth = k.depth;
    result.value_depth = k.value_depth;
    result.query = k.query;
    result.key = k.key;
    result.value = k.value;
    result.output = k.output;
    result.query_block = k.query_block;
    result.key_block = k.key_block;
}

/// Splits, threads and bytes. The tables of conditions have their sizes once `map` was made.
void set_memory(explanation& result, const bound_call& bound, const block_map& map, const computed_cost& computed) {
    const kernel& k = bound.chosen();
    result.threads = bound.threads_in_use();
    result.key_splits = bound.key_splits();
    result.stack_bytes = most_stack;
    result.scratch_bytes = std::max(k.scratch_bytes, computed.block_bytes);
    result.saved_bytes = bound.saved_bytes();
    result.table_bytes = bound.table_bytes();
    result.tensor_bytes = computed.tensor_bytes;
    result.packed_bytes = computed.packed_bytes;
    result.sum_bytes = bound.sum_bytes();
    auto tasks = std::int64_t{map.batches} * map.heads * map.query_blocks;  // one a tile of queries
    if (result.key_splits) {
        result.scratch_bytes += k.row_bytes * static_cast<std::size_t>(bound.stacked_rows());
        const std::int64_t rows = (bound.stacked_rows() + k.splits.rows - 1) / k.splits.rows * k.splits.rows;
        result.split_bytes = k.splits.of_row * static_cast<std::size_t>(rows * bound.stacks() * result.key_splits);
        tasks = bound.stacks() * result.key_splits;
    }
    const auto working = std::min<std::int64_t>(result.threads, tasks);
    if (!is_device(k.target) && !result.key_splits)
        result.table_bytes += static_cast<std::size_t>(working * map.key_blocks) * bytes_of_a_verdict;
    result.workspace_bytes = result.scratch_bytes * static_cast<std::size_t>(working) + result.saved_bytes +
                             result.split_bytes + result.sum_bytes + result.table_bytes + result.tensor_bytes +
                             result.packed_bytes;
}

void add_inputs(explanation& result, const kernel_table& table, const bound_call& bound) {
    for (std::size_t i = 0; i < table.graph.inputs.size(); ++i) {
        const input_declaration& d = table.graph.inputs[i];
        if (d.is_scalar) {
            result.inputs.push_back({std::string(d.name), "number", d.element, {}, {}});
            result.input_bytes += 4;
            continue;
        }
        const tensor& t = bound.given().inputs[i]->view;
        explanation::argument& a = result.inputs.emplace_back(
            explanation::argument{std::string(d.name), "tensor", t.type(), {}, {t.shape().begin(), t.shape().end()}});
        for (int axis = 0; axis < d.rank; ++axis) a.axes.emplace_back(d.axes[static_cast<std::size_t>(axis)].name);
        result.input_bytes += bytes_of(a);
    }
    if (const named_argument* const lengths = bound.given().kv_lengths) {
        result.inputs.push_back({"kv_lengths", "tensor", element_type::i32, {"batch"}, {lengths->view.extent(0)}});
        result.input_bytes += bytes_of(result.inputs.back());
    }
}

/// By the call's shape: the tensors may have been left out.
void add_outputs(explanation& result, const kernel_table& table, const bound_call& bound) {
    for (const output_declaration& d : table.graph.outputs) {
        const kind is = kind_of(table.graph, d);
        const element_type type = output_type(table.graph, bound.given(), d, bound.chosen().output);
        explanation::argument& a = result.outputs.emplace_back(
            explanation::argument{std::string(d.name), std::string(name_of(is)), type, {}, {}});
        const output_axes axes = axes_of_output(table.graph, d);
        for (std::size_t axis = 0; axis < axes.rank; ++axis) a.axes.emplace_back(axes.names[axis]);
        const auto extents = extents_of_output(bound.shape(), table.graph, bound.given(), d);
        a.shape.assign(extents.view().begin(), extents.view().end());
        result.output_bytes += bytes_of(a);
    }
}

explanation explanation_of(const kernel_table& table, bound_call& bound, const options& how) {
    explanation result;
    set_kernel(result, table, bound);
    result.deterministic = is_deterministic(how);
    const block_map map = bound.blocks();
    result.blocks = map.total();
    result.blocks_visited = map.visited();
    result.blocks_unmasked = map.unmasked();
    for (const auto& [text, why] : table.notes.conditions) result.conditions.push_back({text, why});
    result.semantics = meaning_of(table, result, bound.given().kv_lengths != nullptr);
    const kernel& k = bound.chosen();
    const computed_cost computed = cost_of_computed(bound.shape(), table.graph, bound.given(), k);
    const std::int64_t pairs = map.pairs_visited(result.query_length, result.key_length);
    result.flops = 2.0 * static_cast<double>(pairs) * k.depths_of_pair + computed.flops;
    set_memory(result, bound, map, computed);
    add_inputs(result, table, bound);
    add_outputs(result, table, bound);
    return result;
}

/// Inputs as they were passed.
void set_passed_shapes(explanation& of, std::span<const named_argument> arguments) {
    for (explanation::argument& a : of.inputs)
        for (const named_argument& given : arguments)
            if (given.name == a.name && !a.shape.empty())
                a.shape.assign(given.view.shape().begin(), given.view.shape().end());
}

/// The explanation of the first part, the largest; blocks, inputs and outputs are those of the whole call.
explanation explanation_of(const kernel_table& table, parted_call& parts, std::span<const named_argument> arguments,
                           const options& how) {
    explanation result = explanation_of(table, parts.first(), how);
    const block_map map = parts.blocks();
    result.calls = static_cast<int>(parts.size());
    result.blocks = map.total(), result.blocks_visited = map.visited(), result.blocks_unmasked = map.unmasked();
    set_passed_shapes(result, arguments);
    for (std::size_t i = 0; i < result.outputs.size(); ++i) {
        const output_axes axes = axes_of_output(table.graph, table.graph.outputs[i]);
        const auto heads = result.heads / std::max<std::int64_t>(result.key_heads, 1);
        for (std::size_t axis = 0; axis < axes.rank; ++axis) {
            std::int64_t& extent = result.outputs[i].shape[axis];
            const axis_kind along = axes.view()[axis];
            if (along == axis_kind::batch) extent = map.batches;
            if (along == axis_kind::head) extent = map.heads;
            if (along == axis_kind::key_head) extent = map.heads / std::max<std::int64_t>(heads, 1);
        }
    }
    return result;
}

}  // namespace

explanation explain(const kernel_table& table, std::span<const named_argument> arguments, const options& how) {
    if (!packed_by(table, arguments)) {
        if (const auto parts = parted_call::of(table, arguments, how, bound_call::outputs::optional, true)) {
            parts->check_values();
            return explanation_of(table, *parts, arguments, how);
        }
        bound_call bound(table, arguments, how, bound_call::outputs::optional, true);
        bound.check_values();
        return explanation_of(table, bound, how);
    }
    packed_call packed(table, arguments, how, bound_call::outputs::optional, true);
    packed.check_values();
    packed_call::part* largest = nullptr;
    const auto queries = [](const packed_call::part& each) { return each.of.count * each.of.queries; };
    for (packed_call::part& each : packed.parts())
        if (!largest || queries(each) > queries(*largest)) largest = &each;
    explanation result = explanation_of(table, *largest->call, how);
    set_passed_shapes(result, arguments);
    for (explanation::argument& a : result.outputs) {
        const auto along = [&](std::string_view axis) { return std::ranges::find(a.axes, axis) - a.axes.begin(); };
        const auto batch = static_cast<std::size_t>(along("batch")), query = static_cast<std::size_t>(along("query"));
        a.shape[batch] = query < a.axes.size() ? 1 : packed.sequences();
        if (query < a.axes.size()) a.shape[query] = packed.queries();
    }
    for (const packed_call::part& each : packed.parts())
        result.packed.push_back({each.of.first, each.of.count, each.of.queries, each.call->chosen().symbol});
    return result;
}

kernel_list kernels(const kernel_table& table) {
    check_version(table);
    kernel_list result{.variant = table.variant, .entries = {}};
    const char* const forced = std::getenv("ATTUNE_TARGET");
    for (const kernel& k : table.kernels) {
        kernel_list::entry entry;
        entry.symbol = k.symbol, entry.target = k.target, entry.missing = missing_here(table, k, this_cpu());
        entry.query = k.query, entry.key = k.key, entry.value = k.value, entry.output = k.output;
        entry.depth = k.depth, entry.value_depth = k.value_depth;
        entry.cpus = k.cpus ? k.cpus : "";
        entry.shapes = name_of(k.shapes), entry.from_queries = k.from_queries, entry.to_queries = k.to_queries;
        kernel_request asked{.query = k.query,
                             .key = k.key,
                             .value = k.value,
                             .output = k.output,
                             .depth = k.depth,
                             .value_depth = k.value_depth,
                             .queries = k.to_queries};
        asked.target = forced ? forced : "", asked.forced_by = "ATTUNE_TARGET";
        try {
            const choice made = choose(table, asked, this_cpu(), true);
            if (made.chosen == &k) entry.chosen = true, entry.why = made.why;
        } catch (const error&) {
            // None fits: every entry says what is missing.
        }
        result.entries.push_back(std::move(entry));
    }
    return result;
}

}  // namespace attune::detail
