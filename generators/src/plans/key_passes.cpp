#include "analysis/narrow_rows.hpp"
#include "kernel/tensor_schedule.hpp"
#include "plans/parts.hpp"

#include <attune/ir/outputs_problem.hpp>
#include <attune/ir/projections.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>

/// The decisions of the pass over the keys of one attention core, for each way in which a schedule cuts it.
namespace attune::generators::inline plans {
namespace {

using lanes = score_plan::lanes;

bool is_narrow(const kernel_request& request, int tensor) {
    return narrow_rows_of(request.graph(), request.facts->depends, tensor).has_value();
}

/// Whether a node is made only of constants and of depths, which are constants of a kernel.
bool is_compiled_in(const graph_ir& graph, int node) {
    const std::vector<bool> read = under(graph, {node});
    for (int n = 0; n <= node; ++n) {
        const instruction& it = graph.nodes[n];
        const bool known = it.argument_count > 0 || it.op == operation::constant || it.op == operation::depth ||
                           it.op == operation::value_depth;
        if (read[static_cast<std::size_t>(n)] && !known) return false;
    }
    return true;
}

/// The kept numbers among all nodes that `roots` are computed from, down to the known ones. On a CPU functions of
/// constants are constants; on a GPU the device's library has the functions.
std::vector<kept_node> kept_under(const kernel_request& request, const std::vector<dependence>& depends,
                                  const std::vector<int>& roots, const std::vector<int>& known) {
    std::vector<kept_node> all;
    for (const int node : hoistable(request.graph(), depends, roots, known)) {
        const dependence& on = depends[static_cast<std::size_t>(node)];
        if (request.on_gpu() || !is_compiled_in(request.graph(), node))
            all.push_back({node, on.query ? owner::query : on.key ? owner::key : owner::task});
    }
    return all;
}

/// Loads of rows that each have a place of their own, as in pages: their indices depend on a key, and on no channel but
/// d_idx itself. They are kept in decode on a CPU, since finding such a place takes longer than reading a row.
std::vector<int> placed_under(const kernel_request& request, const std::vector<dependence>& depends, int formula) {
    const graph_ir& graph = request.graph();
    std::vector<int> all;
    if (!decodes(request.schedule) || request.on_gpu()) return all;
    const std::vector<bool> read = under(graph, {formula});
    for (int n = 0; n <= formula; ++n) {
        const instruction& it = graph.nodes[n];
        if (!read[static_cast<std::size_t>(n)] || it.op != operation::load) continue;
        const instruction& from = graph.nodes[it.arguments[0]];
        if (from.op != operation::input) continue;
        const input_declaration& input = graph.inputs[static_cast<std::size_t>(from.input)];
        if (!has_dense_rows(input) || graph.nodes[it.arguments[input.rank]].op != operation::d_idx) continue;
        bool of_key = false, whole = true;
        for (int axis = 0; axis + 1 < input.rank; ++axis) {
            const int index = it.arguments[axis + 1];
            const operation bare = graph.nodes[index].op;
            if (bare == operation::h && input.axes[axis].kind == axis_kind::key_head) continue;
            const dependence& on = depends[static_cast<std::size_t>(index)];
            whole = whole && !on.channel && !on.query && !on.score && on.bound == 0;
            of_key = of_key || (on.key && bare != operation::kv_idx);
        }
        if (whole && of_key) all.push_back(n);
    }
    return all;
}

/// Rows that are formed a block at a time: of tensors that are neither inputs nor computed in full, and the factors of
/// further products.
std::vector<formed_rows> formed_under(const kernel_request& request, const plan& core,
                                      const std::vector<dependence>& depends, bool weighs_values) {
    const graph_ir& graph = request.graph();
    const std::vector<node_id> in_full = computed_in_full(graph);
    std::vector<formed_rows> all;
    const auto add = [&](int formula, std::vector<int> known) {
        const std::vector<int> placed = placed_under(request, depends, formula);
        known.insert(known.end(), placed.begin(), placed.end());
        all.push_back({formula, kept_under(request, depends, {formula}, known), placed});
    };
    for (const int tensor : {core.query, core.key, weighs_values ? core.value : -1}) {
        if (tensor < 0 || std::ranges::find(in_full, tensor) != in_full.end()) continue;
        const instruction& it = graph.nodes[tensor];
        if (it.op != operation::input) add(it.arguments[0], {});
    }
    for (const further_contraction& each : core.further)
        add(each.of_query, {each.index}), add(each.of_key, {each.index});
    return all;
}

/// Whether some input under a tensor has rows of channels that lie side by side.
bool has_rows_in_memory(const graph_ir& graph, int tensor) {
    const std::vector<bool> read = under(graph, {tensor});
    for (std::size_t n = 0; n < read.size(); ++n)
        if (read[n] && graph.nodes[n].op == operation::input &&
            has_dense_rows(graph.inputs[static_cast<std::size_t>(graph.nodes[n].input)]))
            return true;
    return false;
}

/// Prefill fetches the next tile of keys while one is computed, if keys are read as they lie, in long rows. If a head's
/// keys come from memory, short calls at depth 128 take 3 % less time. Shorter rows gain nothing, nor do values: a
/// block's first chunk already starts their loads.
bool fetches_long_rows(const kernel_request& request, const plan& core) {
    constexpr int bytes_of_long_rows = 512;
    const instruction& key = request.graph().nodes[core.key];
    if (key.op != operation::input) return false;
    const element_type element = element_of(request.graph().inputs[static_cast<std::size_t>(key.input)], request.types);
    return element != element_type::bf16 && element != element_type::f16 &&
           request.depths.depth * static_cast<int>(sizeof(float)) >= bytes_of_long_rows;
}

row_plan row_of(const plan& core, int accumulators) {
    row_plan row{.accumulators = accumulators,
                 .maximum = is_softmax(core) || core.maximum,
                 .sum = is_softmax(core),
                 .others = {}};
    for (const int node : core.summed_weights)
        if (!(row.sum && node == core.statistic_node) && std::ranges::find(row.others, node) == row.others.end())
            row.others.push_back(node);
    return row;
}

/// Whether all values below the keys in use are finite, by the caller's promise about inputs.
bool are_finite(const kernel_request& request, const plan& core) {
    return request.finite && lies_in_rows(request.graph(), request.facts->depends, core.value);
}

/// Vectors of value depths that share a maximum and a sum: at most four, and equally many in each chunk.
int vectors_of_chunk(int vectors) {
    constexpr int most = 4;
    int chunk = most;
    while (vectors % chunk != 0) --chunk;
    return chunk;
}

/// Vectors of a chunk whose sums of codes a tile of `rows` rows keeps in registers. Of 16 registers, sums take half:
/// codes and weights need the others. One row has few sums, and takes all vectors.
int vectors_of_codes(int vectors, int digits, int rows, bool few_registers) {
    return (digits == 2 || (rows > 1 && few_registers)) && vectors % 2 == 0 ? vectors / 2 : vectors;
}

/// The keys of a tile where a task has one row, as each head has that reads keys of its own: as many sums are in
/// registers as of several rows and fewer keys. Half a vector of keys leaves a loop over them, which fetches rows
/// ahead.
int keys_of_one_row(const cpu_decode& cut) { return cut.query_tile > 1 ? std::max(cut.lanes / 2, 4) : 0; }

/// How many products of weights and values are added up at a time as integers, if the sums of a block fit an i32.
template <class Cut>
int fitting_integers(const Cut& cut, const kernel_request& request, const plan& core, const narrow_rows& values) {
    const int at_a_time =
        decodes(request.schedule) ? integers_of_values(request, core) : integers_of_prefill_values(request, core);
    if (at_a_time == 0 || cut.key_block % at_a_time != 0) return 0;
    const std::int64_t most = std::int64_t{cut.key_block} * core.weight_steps() * values.magnitude();
    return at_a_time == 4 || most <= std::numeric_limits<std::int32_t>::max() ? at_a_time : 0;
}

value_plan values_of(const cpu_decode& cut, const kernel_request& request, const plan& core) {
    const bool few_registers = request.target->registers < 32;
    value_plan values{.vector = std::gcd(cut.lanes, request.depths.value_depth), .keys = cut.value_tile};
    const int vectors = vectors_of_chunk(request.depths.value_depth / values.vector);
    values.chunk = vectors * values.vector;
    values.check = are_finite(request, core) ? value_check::behind_last_key : value_check::masked_subblocks;
    const bool arrive_with_keys = values_lie_in_keys(request.graph(), request.facts->depends, core);
    values.fetched = !arrive_with_keys && has_rows_in_memory(request.graph(), core.value);
    auto narrow = blocked_rows_of(request.graph(), request.facts->depends, core.value);
    const int at_a_time = narrow ? fitting_integers(cut, request, core, *narrow) : 0;
    if (at_a_time == 0 && narrow && narrow->block > 0) narrow.reset();  // their scales multiply values, not weights
    if (!narrow) {
        values.of_whole_block = arrive_with_keys;
        values.channels = values.vector * (values.of_whole_block ? std::gcd(vectors, few_registers ? 2 : 4) : 1);
        if (!values.of_whole_block && lies_in_rows(request.graph(), request.facts->depends, core.value))
            values.keys_of_one_row = keys_of_one_row(cut);
        return values;
    }
    if (narrow->whole) values.check = value_check::none;
    values.how = f32_products{.of_codes = true};
    int digits = 0;
    if (at_a_time > 0) {
        digits = at_a_time == 4 ? core.weight_digits : 1;  // or one word
        values.how = integer_dots{.at_a_time = at_a_time, .digits = digits};
        values.keys = at_a_time;
    }
    values.of_whole_block = true;
    values.channels = values.vector * vectors_of_codes(vectors, digits, cut.query_tile, few_registers);
    values.channels_of_one_row = values.vector * vectors_of_codes(vectors, digits, 1, few_registers);
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
    std::vector<int> roots{core.scores};
    roots.insert(roots.end(), core.summed_weights.begin(), core.summed_weights.end());
    if (core.weights >= 0) roots.push_back(core.weights);
    for (const int node : output_nodes(facts.graph))
        if (attune::detail::is_of_pairs(facts.graph.nodes[node].kind)) roots.push_back(node);
    const std::vector<dependence> depends =
        along == lanes::channels || decodes(request.schedule) ? stacked(facts.graph, facts.depends) : facts.depends;
    scores.kept = kept_under(request, depends, roots, products);
    scores.formed = formed_under(request, core, depends, along != lanes::keys && core.weights >= 0);
    if (along == lanes::queries && !request.on_gpu())
        scores.turned = loads_of_pairs(facts.graph, depends, roots, products);
    return scores;
}

key_pass pass_of(const cpu_prefill& cut, const kernel_request& request, const plan& core) {
    const int depth = request.depths.depth;
    key_pass pass{.scores = scores_along(lanes::queries, request, core)};
    score_plan& scores = pass.scores;
    const bool of_codes = multiplies_codes(cut), in_tiles = of_codes && is_tiled(cut);
    scores.how = of_pairing(cut.pairing), scores.queries = cut.query_tile, scores.keys = cut.key_tile;
    if (const int of_word = of_codes ? integers_of_prefill_scores(request, core) : 0; of_word > 0)
        scores.how = integer_dots{.at_a_time = of_word, .of_tiles = in_tiles};
    const int at_a_time = made_by<bf16_pairs>(scores.how) ? 2 : std::max(integers_at_a_time(scores.how), 1);
    const bool whole_steps = !is_of_tiles(scores.how) && depth % (at_a_time * cut.depth_unroll) == 0;
    scores.unroll = whole_steps ? cut.depth_unroll : 1;
    scores.fetched = fetches_long_rows(request, core);
    if (core.weights >= 0) {
        value_plan values{
            .how = of_pairing(cut.pairing),
            .check = are_finite(request, core) ? value_check::behind_last_key : value_check::masked_subblocks,
            .vector = 1,
            .channels = cut.value_tile,
            .keys = 4,
            .chunk = cut.chunk,
            .of_whole_block = true};
        if (made_by<bf16_pairs>(values.how)) values.keys = 2;
        if (made_by<bf16_tiles>(values.how)) values.keys = bf16_of_tile, values.channels = cut.chunk;
        const auto narrow = narrow_rows_of(request.graph(), request.facts->depends, core.value);
        const int of_word = of_codes && narrow ? fitting_integers(cut, request, core, *narrow) : 0;
        if (of_word > 0) {
            values.how = integer_dots{.at_a_time = of_word, .digits = 1, .of_tiles = in_tiles};
            values.keys = in_tiles ? bytes_of_tile : of_word, values.check = value_check::none;
            if (in_tiles) values.channels = cut.chunk;
        }
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

/// A warp makes tiles of 16 queries by 8 keys, or by 8 value depths, of all keys of a block.
key_pass pass_of(const gpu_tensor_prefill& cut, const kernel_request& request, const plan& core) {
    const warp_fragments how{.of = request.types.query,
                             .of_warpgroup = request.target->warpgroups,
                             .products = std::max(request.tf32_products, 1)};
    key_pass pass{.scores = scores_along(lanes::fragments, request, core)};
    pass.scores.how = how;
    if (tensor_cores_take_codes(request)) {
        pass.scores.how = warp_fragments{.of = element_type::i8};
        const auto is_of_codes = [&](const formed_rows& rows) {
            const auto makes = [&](int tensor) { return request.graph().nodes[tensor].arguments[0] == rows.formula; };
            return makes(core.query) || makes(core.key);
        };
        std::erase_if(pass.scores.formed, std::not_fn(is_of_codes));
    } else {
        pass.scores.formed.clear();  // rows are copied from where they lie
    }
    pass.scores.queries = cut.rows_of_tile * cut.tiles, pass.scores.keys = cut.key_block;
    pass.scores.unroll = request.depths.depth;
    constexpr int threads_a_row = 4;
    const int accumulators = request.depths.value_depth / threads_a_row;
    pass.values = value_plan{.how = how,
                             .check = marks_tasks(request) ? value_check::sums : value_check::none,
                             .vector = 1,
                             .channels = accumulators,
                             .keys = how.step(),
                             .chunk = accumulators,
                             .of_whole_block = true};
    pass.row = row_of(core, accumulators);
    return pass;
}

/// The same with stacked rows.
key_pass pass_of(const gpu_tensor_decode& cut, const kernel_request& request, const plan& core) {
    return pass_of(cut.of_split(), request, core);
}

key_pass pass_of(const cpu_decode& cut, const kernel_request& request, const plan& core) {
    key_pass pass{.scores = scores_along(lanes::channels, request, core)};
    score_plan& scores = pass.scores;
    scores.queries = cut.query_tile, scores.keys = cut.key_tile, scores.unroll = cut.depth_unroll;
    scores.fetched = has_rows_in_memory(request.graph(), core.key);
    constexpr int rows_of_integers = 4;  // of queries that lie side by side
    const int at_a_time = integers_of_scores(request, core);
    if (at_a_time > 0 && cut.query_tile % rows_of_integers == 0) {
        scores.how = integer_dots{.at_a_time = at_a_time};
        scores.queries = rows_of_integers;
        scores.keys = at_a_time == 2 && request.target->registers < 32 ? 2 : 4;  // a row of words takes a register
    } else {
        scores.how = f32_products{.of_codes = is_narrow(request, core.key)};
        scores.keys_of_one_row = keys_of_one_row(cut);
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

bool score_plan::reads_in_place(int formula) const {
    return std::ranges::any_of(formed, [&](const formed_rows& each) {
        return each.formula == formula && std::ranges::find(each.placed, formula) != each.placed.end();
    });
}

const formed_rows& score_plan::rows_of(int formula) const {
    for (const formed_rows& each : formed)
        if (each.formula == formula) return each;
    throw std::logic_error("expected rows that the plan forms a block at a time, got those of node " +
                           std::to_string(formula));
}

}  // namespace attune::generators::inline plans
