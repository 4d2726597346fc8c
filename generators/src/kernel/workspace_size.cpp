#include "analysis/gradient_products.hpp"
#include "analysis/narrow_rows.hpp"
#include "kernel/gradient_schedule.hpp"
#include "kernel/kernel_request.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace attune::generators::inline kernel {
namespace {

/// What of a schedule says how much is kept. A GPU's threads keep what a CPU's single lane would.
struct kept_sizes {
    int query_block{}, key_block{}, query_tile{}, lanes{1}, key_tile{}, value_tile{}, chunk{1}, pairing{1};
};

kept_sizes sizes_of(const schedule& s) {
    return std::visit(
        [blocks = blocks_of(s)](const auto& cut) {
            kept_sizes all{
                .query_block = blocks.query_block, .key_block = blocks.key_block, .query_tile = cut.query_tile};
            if constexpr (requires { cut.lanes; }) all.lanes = cut.lanes;
            if constexpr (requires { cut.value_tile; }) all.value_tile = cut.value_tile;
            if constexpr (requires { cut.chunk; }) all.chunk = cut.chunk;
            if constexpr (requires { cut.pairing; }) all.pairing = cut.pairing;
            if constexpr (requires { cut.key_tile; }) all.key_tile = cut.key_tile;
            return all;
        },
        s);
}

/// What is hoisted for each query or key in a block: one f32 or i32, and a byte that masks it.
std::size_t hoisted_bytes(const graph_facts& facts, const kept_sizes& cut) {
    const auto& [graph, depends, core, hides, no_decode, gradient, of_heads, sizes, wraps, infinities] = facts;
    std::vector<int> roots, known{core.contraction};
    for (const further_contraction& further : core.further) known.push_back(further.node);
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        const instruction& node = graph.nodes[n];
        const bool computed =
            node.op == operation::queries || node.op == operation::keys || node.op == operation::values;
        if (computed) roots.push_back(node.arguments[0]);
        if (node.kind == kind::scores || node.kind == kind::weights || node.kind == kind::output ||
            node.kind == kind::row)
            roots.push_back(static_cast<int>(n));
    }
    const auto kept = hoistable(graph, depends, roots, known);
    return (kept.size() + 1) * 5 * static_cast<std::size_t>(cut.query_block + cut.key_block);
}

std::vector<int> numbers_of_pairs(const gradient_plan& plan) {
    std::vector<int> made = plan.tiles;
    for (const gradient_term& term : plan.terms) made.insert(made.end(), term.tiles.begin(), term.tiles.end());
    return made;
}

/// Blocks of pairs, and rows of queries and keys.
std::size_t scratch_of_gradient(const kernel_request& request, const kept_sizes& cut) {
    const graph_facts& facts = *request.facts;
    const gradient_plan& plan = *facts.gradient;
    const std::vector<int> made = numbers_of_pairs(plan);
    const int width = sum_layout(request).width,
              contractions = 1 + static_cast<int>(contractions_under(facts.graph, facts.depends, made).size()),
              tiles = static_cast<int>(made.size()) + contractions,
              rows = static_cast<int>(plan.sums.size()) + 2 * contractions;
    // Tensors of pairs are transposed by the sweep, and by each pass over the pairs.
    const int by_pair =
                  static_cast<int>(std::ranges::count(plan.terms, gradient_term::form::by_pair, &gradient_term::is)),
              transposed =
                  (1 + by_pair) * static_cast<int>(loads_of_pairs(facts.graph, facts.depends, made, {}).size());
    const auto floats = static_cast<std::size_t>((tiles + transposed) * cut.query_block * cut.key_block +
                                                 (transposed + by_pair) * cut.lanes * cut.lanes +
                                                 rows * (cut.query_block + 2 * cut.lanes) * width);
    return sizeof(float) * floats + 3 * hoisted_bytes(facts, cut);
}

}  // namespace

std::size_t plain_scratch_bytes(const schedule& s, const depth_pair& depths) {
    const kept_sizes cut = sizes_of(s);
    const std::size_t queries = cut.query_block, chunks = (depths.value_depth + cut.chunk - 1) / cut.chunk;
    const std::size_t state = queries * chunks * (cut.chunk + 2), packed_queries = queries * depths.depth,
                      rows = 2 * queries;
    const std::size_t tile = cut.query_tile, scores_and_weights = 2 * tile * cut.key_block,
                      sums = tile * (cut.chunk + 2);
    const std::size_t transposed = std::size_t(cut.lanes) * (cut.lanes + cut.query_block);
    return sizeof(float) * (state + packed_queries + rows + scores_and_weights + sums + transposed);
}

namespace {

/// What the pass over the keys of one core keeps.
std::size_t floats_of_state(const kernel_request& request, const plan& core) {
    const auto& [facts, types, depths, target, schedule, finite] = request;
    const kept_sizes cut = sizes_of(schedule);
    const graph_ir& graph = facts->graph;
    const auto size = [](int a, int b = 1) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); };
    const auto computed = [&](int tensor) {
        return tensor >= 0 && graph.nodes[static_cast<std::size_t>(tensor)].op != operation::input;
    };
    // What is read by broadcast is converted first.
    const auto converted = [&](int tensor, element_type type) {
        return tensor >= 0 && !computed(tensor) && bytes_of(type) < 4;
    };
    const std::size_t of_queries = computed(core.query) ? size(cut.query_block, depths.depth) : 0,
                      of_keys = computed(core.key) ? size(cut.key_block, depths.depth) : 0;
    std::size_t floats = 0;
    floats += plain_scratch_bytes(schedule, depths) / sizeof(float) + of_queries + of_keys;
    if (computed(core.value) || (cut.pairing == 1 && converted(core.value, types.value)))
        floats += size(cut.key_block, depths.value_depth);
    if (cut.pairing == 1 && converted(core.key, types.key)) floats += size(cut.key_block, depths.depth);
    if (cut.pairing == 2) floats += size(cut.key_block, depths.value_depth + 2 * cut.lanes + cut.query_tile) / 2;
    if (cut.pairing == bf16_of_tile)
        floats += size(cut.key_block, depths.value_depth + depths.depth + 2 * cut.lanes + cut.query_tile) / 2 +
                  size(cut.query_block, depths.depth) + size(cut.query_tile, cut.key_tile);
    // Modified weights lie in a tile of their own, and have sums.
    const int modified =
        static_cast<int>(core.summed_weights.size()) + (core.weights >= 0 && core.weights != core.statistic_node);
    floats +=
        size(modified, cut.query_tile * cut.key_block + 2 * cut.query_block * (depths.value_depth / cut.chunk + 2));
    floats += size(cut.query_block, 3 * (static_cast<int>(core.outputs.size()) + 4));  // rows
    std::vector<int> roots{core.scores};
    roots.insert(roots.end(), core.summed_weights.begin(), core.summed_weights.end());
    if (core.weights >= 0) roots.push_back(core.weights);
    floats += loads_of_pairs(graph, facts->depends, roots, {core.contraction}).size() *
              (size(cut.query_tile, cut.key_block) + size(cut.lanes, cut.lanes));  // transposed
    return floats;
}

}  // namespace

std::size_t scratch_bytes(const kernel_request& request) {
    const auto& [facts, types, depths, target, schedule, finite] = request;
    const kept_sizes cut = sizes_of(schedule);
    const graph_ir& graph = facts->graph;
    const plan& core = facts->core;
    if (facts->gradient) return scratch_of_gradient(request, cut);
    if (decodes(schedule)) {  // tiles of keys and values that are computed, rows that fill the last
                              // tile, and 32 allocations rounded up
        const auto tile = static_cast<std::size_t>(cut.lanes * depths.depth + cut.value_tile * depths.value_depth +
                                                   cut.lanes * cut.lanes * cut.query_tile);
        return static_cast<std::size_t>(cut.query_tile - 1) * row_memory_of(request).scratch_bytes +
               core.cores().size() * (sizeof(float) * tile + 3 * hoisted_bytes(*facts, cut) + 32 * 128);
    }
    if (!core.has_core())
        return sizeof(float) * static_cast<std::size_t>(cut.query_block) * 2 * (graph.outputs.size() + 4);
    const auto size = [](int a, int b = 1) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); };
    const auto computed = [&](int tensor) {
        return tensor >= 0 && graph.nodes[static_cast<std::size_t>(tensor)].op != operation::input;
    };
    const std::size_t of_queries = computed(core.query) ? size(cut.query_block, depths.depth) : 0,
                      of_keys = computed(core.key) ? size(cut.key_block, depths.depth) : 0;
    std::size_t floats = 0;
    for (const plan* each : core.cores()) floats += each->needs_state() ? floats_of_state(request, *each) : 0;
    // The second pass: keys transposed, the queries' rows, a block of each output, or of up to four blocks of queries,
    // and the tile that is added to it.
    for (const auto& [first, second] : {std::pair(kind::scores, kind::weights), std::pair(kind::column, kind::column),
                                        std::pair(kind::head_mean, kind::head_mean)}) {
        int made = 0;
        for (const kind output : core.outputs) made += output == first || output == second;
        if (made == 0) continue;
        const int blocks = first == kind::head_mean ? 4 : 1;
        floats += size(cut.key_block + 2 * cut.lanes, depths.depth) + size(cut.query_block, depths.depth) + of_queries +
                  of_keys + size(2, cut.query_block) + size(made * blocks, cut.key_block * cut.query_block) +
                  size(made + 1, 2 * cut.lanes * 12) + size(cut.lanes, cut.key_block);
    }
    return sizeof(float) * floats + 3 * hoisted_bytes(*facts, cut);
}

sum_memory sum_memory_of(const kernel_request& request) {
    const graph_facts& facts = *request.facts;
    if (!facts.gradient) return {};
    const gradient_plan& plan = *facts.gradient;
    const depth_pair& depths = request.depths;
    const sum_layout layout(request);
    const auto width = static_cast<std::size_t>(layout.width), block = static_cast<std::size_t>(layout.block);
    sum_memory sums;
    sums.parts = tasks_of_batch_element;
    const int of_each_query = static_cast<int>(
        std::ranges::count_if(hoistable(facts.graph, facts.depends, numbers_of_pairs(plan), {facts.core.contraction}),
                              [&](int n) { return facts.depends[static_cast<std::size_t>(n)].query; }));
    sums.of_query = 5 * static_cast<std::size_t>(of_each_query);  // kept of a task, as in hoisted_bytes
    const auto of = [&](bool of_queries, bool per_head) -> std::size_t& {
        return of_queries ? sums.of_query : per_head ? sums.of_key : sums.of_key_head;
    };
    if (facts.core.contraction >= 0) sums.depths += depths.depth;
    sums.depths +=
        depths.value_depth * static_cast<int>(contractions_under(facts.graph, facts.depends, plan.tiles).size());
    for (const gradient_sum& sum : plan.sums) {
        const auto rows = static_cast<std::size_t>(layout.rows_of_block(sum));
        of(sum.of_queries, sum.per_head) += (sizeof(float) * width * rows + block - 1) / block;
        if (sum.rows >= 0) sums.depths += sum.of_values ? depths.value_depth : depths.depth;
    }
    std::set<std::size_t> rounded, whole;
    std::set<std::pair<int, bool>> formed, added;
    for (const gradient_term& term : plan.terms) {
        if (term.is != gradient_term::form::placed) continue;
        std::vector<int> known;
        for (const auto& [node, sum] : term.sums) known.push_back(node);
        const std::vector<int> summed = known;
        if (term.added_first >= 0) {  // of the sums of all parts a number
            const std::size_t first = term.sums.begin()->second;
            const gradient_sum& sum = plan.sums[first];
            known.push_back(term.added_first);
            for (const auto& [node, number] : term.sums)
                if (whole.insert(number).second)
                    of(term.of_queries, sum.per_head) +=
                        sizeof(float) * static_cast<std::size_t>(sum.of_values ? depths.value_depth : depths.depth);
            if (added.emplace(term.added_first, sum.per_head).second) {
                of(term.of_queries, sum.per_head) += sizeof(float);
                of(term.of_queries, true) +=  // numbers of a position are kept for each query head
                    5 * hoistable(facts.graph, facts.depends, {term.added_first}, summed).size();
            }
        }
        if (const auto product = product_of(facts.graph, facts.depends, plan, term)) {
            // The sums of all parts, rows made of them, and for each position what they meet or what comes out: as wide
            // as all heads are.
            bool of_heads = true;
            const auto row =
                sizeof(float) * static_cast<std::size_t>(product->of_values ? depths.value_depth : depths.depth);
            std::size_t rows = 1;
            for (const auto& [node, number] : term.sums)
                of_heads = plan.sums[number].per_head, rows += whole.insert(number).second ? 1 : 0;
            if (!term.sums.contains(product->rows)) rows += formed.emplace(product->rows, of_heads).second ? 1 : 0;
            of(term.of_queries, of_heads) += rows * row;
            of(term.of_queries, true) += 5 * hoistable(facts.graph, facts.depends, {product->rows}, known).size();
            continue;
        }
        // Numbers of a position that are kept, and f32 sums of what is rounded in the end.
        of(term.of_queries, true) += 5 * hoistable(facts.graph, facts.depends, {term.value}, known).size();
        const int input = facts.graph.nodes[static_cast<std::size_t>(term.deposit)].input;
        if (const input_declaration& to = facts.graph.inputs[static_cast<std::size_t>(input)];
            to.element == element_type::any && element_of(to, request.types) != element_type::f32 &&
            rounded.insert(term.output).second)
            of(term.of_queries, false) += sizeof(float) * width;
    }
    return sums;
}

row_memory row_memory_of(const kernel_request& request) {
    const auto& [facts, types, depths, target, schedule, finite] = request;
    if (!decodes(schedule)) return {};
    const kept_sizes cut = sizes_of(schedule);
    const auto size = [](int floats) { return sizeof(float) * static_cast<std::size_t>(floats); };
    row_memory each;
    for (const plan* core : facts->core.cores()) {
        const int scaled = core->value >= 0 && narrow_rows_of(facts->graph, facts->depends, core->value) ? 1 : 0,
                  modified = static_cast<int>(core->summed_weights.size()) +
                             (core->weights >= 0 && core->weights != core->statistic_node);
        if (request.on_gpu()) {  // what is kept of a block of threads is in the device's shared memory
            each.part_bytes += size((core->weights >= 0 ? depths.value_depth : 0) + 2 + modified);
            continue;
        }
        const int vector = core->weights >= 0 ? cut.lanes : 1,  // at most: a chunk is a vector or more
            chunks = core->weights >= 0 ? depths.value_depth / vector + 1 : 1;
        const int state = depths.value_depth + vector * chunks * (2 + modified);
        each.part_bytes += size(state);
        each.scratch_bytes += size(depths.depth + (2 + modified + scaled) * (cut.key_block + cut.lanes + 2) +
                                   depths.value_depth + state + 2) +
                              3 * hoisted_bytes(*facts, cut) / static_cast<std::size_t>(cut.key_block);
    }
    return each;
}

}  // namespace attune::generators::inline kernel
