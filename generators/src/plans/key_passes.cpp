#include "analysis/narrow_rows.hpp"
#include "plans/parts.hpp"

#include <attune/ir/outputs_problem.hpp>

#include <algorithm>
#include <numeric>

/// What the pass over the keys of one attention core does, by the way in which a schedule cuts it.
namespace attune::generators::inline plans {
namespace {

using lanes = score_plan::lanes;

bool is_narrow(const kernel_request& request, int tensor) {
    return narrow_rows_of(request.graph(), request.facts->depends, tensor).has_value();
}

/// Whether a node is made of constants and of depths alone, which a kernel is compiled for.
bool is_compiled_in(const graph_ir& graph, int node) {
    const std::vector<bool> read = under(graph, {node});
    for (int n = 0; n <= node; ++n) {
        const instruction& it = graph.nodes[static_cast<std::size_t>(n)];
        const bool known = it.argument_count > 0 || it.op == operation::constant || it.op == operation::depth ||
                           it.op == operation::value_depth;
        if (read[static_cast<std::size_t>(n)] && !known) return false;
    }
    return true;
}

row_plan row_of(const plan& core, int accumulators) {
    row_plan row{.accumulators = accumulators,
                 .maximum = is_softmax(core) || core.maximum,
                 .sum = is_softmax(core),
                 .others = {}};
    for (const int node : core.summed_weights)
        if (!(row.sum && node == core.statistic_node)) row.others.push_back(node);
    std::ranges::sort(row.others);
    row.others.erase(std::ranges::unique(row.others).begin(), row.others.end());
    return row;
}

/// Where all values below the keys in use are finite, by the caller's promise of inputs.
bool are_finite(const kernel_request& request, const plan& core) {
    return request.finite && lies_in_rows(request.graph(), request.facts->depends, core.value);
}

/// Vectors of value depths that share a maximum and a sum: at most four, and as many for each.
int vectors_of_chunk(int vectors) {
    constexpr int most = 4;
    int chunk = most;
    while (vectors % chunk != 0) --chunk;
    return chunk;
}

value_plan values_of(const cpu_decode& cut, const kernel_request& request, const plan& core) {
    const bool few_registers = request.target->registers < 32;
    value_plan values{.vector = std::gcd(cut.lanes, request.depths.value_depth), .keys = cut.value_tile};
    const int vectors = vectors_of_chunk(request.depths.value_depth / values.vector);
    values.chunk = vectors * values.vector;
    values.check = are_finite(request, core) ? value_check::behind_last_key : value_check::masked_subblocks;
    const auto narrow = narrow_rows_of(request.graph(), request.facts->depends, core.value);
    if (!narrow) {
        values.of_whole_block = values_lie_in_keys(request.graph(), request.facts->depends, core);
        values.channels = values.vector * (values.of_whole_block ? std::gcd(vectors, few_registers ? 2 : 4) : 1);
        return values;
    }
    if (narrow->whole) values.check = value_check::none;
    values.how = f32_products{.of_codes = true};
    int digits = 0;
    if (const int at_a_time = products_of_values(request, core); at_a_time > 0) {
        digits = at_a_time == 4 ? core.weight_digits : 1;  // or one word
        values.how = integer_dots{.at_a_time = at_a_time, .digits = digits};
        values.keys = at_a_time;
    }
    values.of_whole_block = true;
    values.channels = values.vector * vectors_of_codes(vectors, digits, cut.query_tile, few_registers);
    return values;
}

}  // namespace

multiplication of_pairing(int pairing) {
    if (pairing == bf16_of_tile) return bf16_tiles{};
    if (pairing == 2) return bf16_pairs{};
    return f32_products{};
}

score_plan scores_along(lanes along, const kernel_request& request, const plan& core) {
    const graph_facts& facts = *request.facts;
    score_plan scores{.along = along};
    std::vector<int> products{core.contraction};
    for (const further_contraction& each : core.further) scores.further.push_back(each.node);
    products.insert(products.end(), scores.further.begin(), scores.further.end());
    scores.roots.push_back(core.scores);
    scores.roots.insert(scores.roots.end(), core.summed_weights.begin(), core.summed_weights.end());
    if (core.weights >= 0) scores.roots.push_back(core.weights);
    for (const int node : output_nodes(facts.graph))
        if (attune::detail::is_of_pairs(facts.graph.nodes[static_cast<std::size_t>(node)].kind))
            scores.roots.push_back(node);
    const std::vector<dependence> depends =
        along == lanes::channels ? stacked(facts.graph, facts.depends) : facts.depends;
    std::vector<int> known = products;
    for (const int node : hoistable(facts.graph, depends, scores.roots, products)) {
        known.push_back(node);
        if (is_compiled_in(facts.graph, node)) continue;
        const dependence& on = depends[static_cast<std::size_t>(node)];
        scores.kept.push_back({node, on.query ? owner::query : on.key ? owner::key : owner::task});
    }
    if (along == lanes::queries && !request.on_gpu())
        scores.turned = loads_of_pairs(facts.graph, depends, scores.roots, known);
    return scores;
}

int vectors_of_codes(int vectors, int digits, int rows, bool few_registers) {
    return (digits == 2 || (rows > 1 && few_registers)) && vectors % 2 == 0 ? vectors / 2 : vectors;
}

key_pass pass_of(const cpu_prefill& cut, const kernel_request& request, const plan& core) {
    const int depth = request.depths.depth;
    key_pass pass{.scores = scores_along(lanes::queries, request, core)};
    score_plan& scores = pass.scores;
    scores.how = of_pairing(cut.pairing), scores.queries = cut.query_tile, scores.keys = cut.key_tile;
    const bool whole_steps =
        made_by<f32_products>(scores.how) || (made_by<bf16_pairs>(scores.how) && depth % (2 * cut.depth_unroll) == 0);
    scores.unroll = whole_steps ? cut.depth_unroll : 1;
    if (core.weights >= 0) {
        value_plan values{
            .how = scores.how,
            .check = are_finite(request, core) ? value_check::behind_last_key : value_check::masked_subblocks,
            .vector = 1,
            .channels = cut.value_tile,
            .keys = 4,
            .chunk = cut.chunk,
            .of_whole_block = true};
        if (made_by<bf16_pairs>(values.how)) values.keys = 2;
        if (made_by<bf16_tiles>(values.how)) values.keys = bf16_of_tile, values.channels = cut.chunk;
        pass.values = values;
    }
    pass.row = row_of(core, pass.values ? cut.chunk : 0);
    return pass;
}

/// Sums are a thread's own; values are added two keys at a time.
key_pass pass_of(const gpu_prefill& cut, const kernel_request& request, const plan& core) {
    key_pass pass{.scores = scores_along(lanes::queries, request, core)};
    pass.scores.queries = cut.query_tile, pass.scores.keys = cut.key_tile, pass.scores.unroll = cut.depth_unroll;
    if (core.weights >= 0)
        pass.values = value_plan{.check = are_finite(request, core) ? value_check::none : value_check::each_pair,
                                 .vector = 1,
                                 .channels = cut.chunk,
                                 .keys = 2,
                                 .chunk = cut.chunk,
                                 .of_whole_block = true};
    pass.row = row_of(core, pass.values ? cut.chunk : 0);
    return pass;
}

key_pass pass_of(const cpu_decode& cut, const kernel_request& request, const plan& core) {
    key_pass pass{.scores = scores_along(lanes::channels, request, core)};
    score_plan& scores = pass.scores;
    scores.queries = cut.query_tile, scores.keys = cut.key_tile, scores.unroll = cut.depth_unroll;
    if (const int at_a_time = products_of_scores(request, core); at_a_time > 0) {
        scores.how = integer_dots{.at_a_time = at_a_time};
        scores.queries = 4;
        scores.keys = at_a_time == 2 && request.target->registers < 32 ? 2 : 4;  // a row of words takes a register
    } else {
        scores.how = f32_products{.of_codes = is_narrow(request, core.key)};
    }
    if (core.weights >= 0) pass.values = values_of(cut, request, core);
    pass.row = row_of(core, pass.values ? pass.values->chunk / pass.values->vector : 0);
    return pass;
}

key_pass pass_of(const gpu_decode& cut, const kernel_request& request, const plan& core) {
    key_pass pass{.scores = scores_along(lanes::channels, request, core)};
    pass.scores.queries = cut.query_tile, pass.scores.keys = cut.key_tile, pass.scores.unroll = cut.depth_unroll;
    if (core.weights >= 0)
        pass.values = value_plan{.check = are_finite(request, core) ? value_check::none : value_check::each_pair,
                                 .vector = 1,
                                 .channels = cut.chunk,
                                 .keys = cut.value_tile,
                                 .chunk = cut.chunk,
                                 .of_whole_block = true};
    pass.row = row_of(core, pass.values ? cut.chunk : 0);
    return pass;
}

}  // namespace attune::generators::inline plans
