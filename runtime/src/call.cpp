#include "bind.hpp"

#include <attune/runtime/call.hpp>
#include <attune/runtime/error.hpp>

#include <cstdlib>

namespace attune::detail {

void call(const kernel_table& table, std::span<const named_argument> arguments, const options& how) {
    bound_call bound(table, arguments, how, bound_call::outputs::needed, false);
    if (bound.nothing_to_do()) return bound.write_empty_sums();
    if (bound.without_keys()) bound.write_empty_rows();
    else bound.run();
}

block_map blocks(const kernel_table& table, std::span<const named_argument> arguments, const options& how) {
    return bound_call(table, arguments, how, bound_call::outputs::optional, false).blocks();
}

explanation explain(const kernel_table& table, std::span<const named_argument> arguments, const options& how) {
    bound_call bound(table, arguments, how, bound_call::outputs::optional, true);
    const kernel& k = bound.chosen();
    const call_shape& shape = bound.shape();
    const auto extent = [&](axis_kind axis) { return shape[axis]; };
    explanation result;
    result.variant = table.variant, result.formula = table.graph.text;
    result.kernel = k.symbol, result.target = k.target, result.why = bound.why(), result.schedule = k.schedule ? k.schedule : "{}";
    result.batches = extent(axis_kind::batch), result.heads = extent(axis_kind::head), result.key_heads = extent(axis_kind::key_head);
    result.query_length = extent(axis_kind::query), result.key_length = extent(axis_kind::key);
    result.depth = k.depth, result.value_depth = k.value_depth;
    result.query = k.query, result.key = k.key, result.value = k.value, result.output = k.output;
    result.query_block = k.query_block, result.key_block = k.key_block;
    result.scratch_bytes = k.scratch_bytes, result.threads = bound.threads();

    const block_map map = bound.blocks();
    result.blocks = map.total(), result.blocks_visited = map.visited(), result.blocks_unmasked = map.unmasked();
    result.flops = 2.0 * static_cast<double>(map.pairs_visited(result.query_length, result.key_length)) * (k.depth + k.value_depth);

    const auto bytes = [](const tensor& t) {
        std::int64_t elements = 1;
        for (const auto e : t.shape()) elements *= e;
        return elements * bytes_of(t.type());
    };
    for (std::size_t i = 0; i < table.graph.inputs.size(); ++i)
        result.input_bytes += table.graph.inputs[i].is_scalar ? 4 : bytes(bound.given().inputs[i]->view);
    if (bound.given().kv_lengths) result.input_bytes += bytes(bound.given().kv_lengths->view);
    for (const output_declaration& d : table.graph.outputs) {  // by shape: the tensors may have been left out
        const kind is = kind_of(table.graph, d);
        std::int64_t elements = 1;
        for (const axis_kind axis : axes_of_output(is)) elements *= extent(axis);
        result.output_bytes += elements * bytes_of(output_type(is, k.output));
    }
    return result;
}

kernel_list kernels(const kernel_table& table) {
    kernel_list result{.variant = table.variant, .entries = {}};
    const char* const forced = std::getenv("ATTUNE_TARGET");
    for (const kernel& k : table.kernels) {
        kernel_list::entry entry;
        entry.symbol = k.symbol, entry.target = k.target, entry.missing = missing_for(k.target);
        entry.query = k.query, entry.key = k.key, entry.value = k.value, entry.output = k.output;
        entry.depth = k.depth, entry.value_depth = k.value_depth;
        kernel_request asked{.query = k.query, .key = k.key, .value = k.value, .output = k.output, .depth = k.depth, .value_depth = k.value_depth};
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
