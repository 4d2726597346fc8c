#include "analysis/gradient_products.hpp"
#include "kernel/gradient_schedule.hpp"
#include "plans/parts.hpp"

#include <attune/ir/recurrence.hpp>

#include <algorithm>
#include <set>
#include <utility>

/// The bytes of a gradient: those of a thread, and those of the sums of all parts of the queries.
namespace attune::generators::inline plans {
namespace {

std::vector<int> numbers_of_pairs(const gradient_plan& plan) {
    std::vector<int> made = plan.tiles;
    for (const gradient_term& term : plan.terms) made.insert(made.end(), term.tiles.begin(), term.tiles.end());
    return made;
}

}  // namespace

std::vector<buffer> buffers_of(const cpu_gradient& cut, const kernel_request& request) {
    const graph_facts& facts = *request.facts;
    const gradient_plan& gradient = *facts.gradient;
    const std::vector<int> made = numbers_of_pairs(gradient);
    const int width = sum_layout(request).width,
              contractions = 1 + static_cast<int>(contractions_under(facts.graph, facts.depends, made).size()),
              tiles = static_cast<int>(made.size()) + contractions,
              rows = static_cast<int>(gradient.sums.size()) + 2 * contractions;
    // Tensors of pairs are transposed by the sweep, and by each pass over the pairs.
    const int by_pair = static_cast<int>(
                  std::ranges::count(gradient.terms, gradient_term::form::by_pair, &gradient_term::is)),
              transposed =
                  (1 + by_pair) * static_cast<int>(loads_of_pairs(facts.graph, facts.depends, made, {}).size());
    return {{"blocks of pairs", floats(tiles, cut.block * cut.block)},
            {"transposed pairs",
             floats(transposed, cut.block * cut.block) + floats(transposed + by_pair, cut.lanes * cut.lanes)},
            {"rows", floats(rows, (cut.block + 2 * cut.lanes) * width)}};
}

std::vector<buffer> buffers_of(const gpu_gradient& cut, const kernel_request& request) {
    return {{"blocks of pairs and rows", static_cast<std::size_t>(gradient_shared_memory(cut, request))}};
}

namespace {

/// The sums of all passes, which lie in the device's memory until the gradients are made of them.
sum_memory sums_of_passes(const side_passes_plan& planned, const kernel_request& request) {
    const graph_facts& facts = *request.facts;
    sum_memory sums;
    sums.parts = 1;
    for (const side_plan& side : planned.sides)
        for (const std::size_t number : side.sums) {
            const gradient_sum& sum = facts.gradient->sums[number];
            const int numbers = side.across * (sum.rows >= 0 ? side.channels : 1);
            (side.of_queries   ? sums.of_query
             : side.adds_heads ? sums.of_key_head
                               : sums.of_key) += sizeof(float) * static_cast<std::size_t>(numbers);
            if (sum.rows >= 0) sums.depths += sum.of_values ? request.depths.value_depth : request.depths.depth;
        }
    for (const side_plan& side : planned.sides) {  // each pass makes the products of pairs anew
        if (facts.core.contraction >= 0) sums.depths += request.depths.depth;
        sums.depths += request.depths.value_depth *
                       static_cast<int>(contractions_under(facts.graph, facts.depends, side.tiles).size());
    }
    return sums;
}

}  // namespace

sum_memory sum_memory_of(const kernel_plan& planned, const kernel_request& request) {
    if (const auto* passes = std::get_if<side_passes_plan>(&planned.body)) return sums_of_passes(*passes, request);
    const graph_facts& facts = *request.facts;
    if (is_gradient_of_recurrence(facts.graph.nodes)) return sums_of_recurrence(request);
    if (!facts.gradient) return {};
    const gradient_plan& gradient = *facts.gradient;
    const depth_pair& depths = request.depths;
    const sum_layout layout(request);
    const auto width = static_cast<std::size_t>(layout.width), block = static_cast<std::size_t>(layout.block);
    sum_memory sums;
    sums.parts = tasks_of_batch_element;
    const int of_each_query = static_cast<int>(std::ranges::count_if(
        hoistable(facts.graph, facts.depends, numbers_of_pairs(gradient), {facts.core.contraction}),
        [&](int n) { return facts.depends[static_cast<std::size_t>(n)].query; }));
    sums.of_query = 5 * static_cast<std::size_t>(of_each_query);  // kept of a task, as in hoisted_bytes
    const auto of = [&](bool of_queries, bool per_head) -> std::size_t& {
        return of_queries ? sums.of_query : per_head ? sums.of_key : sums.of_key_head;
    };
    if (facts.core.contraction >= 0) sums.depths += depths.depth;
    sums.depths +=
        depths.value_depth * static_cast<int>(contractions_under(facts.graph, facts.depends, gradient.tiles).size());
    for (const gradient_sum& sum : gradient.sums) {
        const auto rows = static_cast<std::size_t>(layout.rows_of_block(sum));
        of(sum.of_queries, sum.per_head) += (sizeof(float) * width * rows + block - 1) / block;
        if (sum.rows >= 0) sums.depths += sum.of_values ? depths.value_depth : depths.depth;
    }
    std::set<std::size_t> rounded, whole;
    std::set<std::pair<int, bool>> formed, added;
    for (const gradient_term& term : gradient.terms) {
        if (term.is != gradient_term::form::placed) continue;
        std::vector<int> known;
        for (const auto& [node, sum] : term.sums) known.push_back(node);
        const std::vector<int> summed = known;
        if (term.added_first >= 0) {  // a number from the sums of all parts
            const std::size_t first = term.sums.begin()->second;
            const gradient_sum& sum = gradient.sums[first];
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
        if (const auto product = product_of(facts.graph, facts.depends, gradient, term)) {
            // The sums of all parts, rows made of them, and for each position the rows' other factor or the product: as
            // wide as all heads together.
            bool of_heads = true;
            const auto row =
                sizeof(float) * static_cast<std::size_t>(product->of_values ? depths.value_depth : depths.depth);
            std::size_t rows = 1;
            for (const auto& [node, number] : term.sums)
                of_heads = gradient.sums[number].per_head, rows += whole.insert(number).second ? 1 : 0;
            if (!term.sums.contains(product->rows)) rows += formed.emplace(product->rows, of_heads).second ? 1 : 0;
            of(term.of_queries, of_heads) += rows * row;
            of(term.of_queries, true) += 5 * hoistable(facts.graph, facts.depends, {product->rows}, known).size();
            continue;
        }
        // Numbers of a position that are kept, and f32 sums of gradients that are rounded at the end.
        of(term.of_queries, true) += 5 * hoistable(facts.graph, facts.depends, {term.value}, known).size();
        const int input = facts.graph.nodes[term.deposit].input;
        if (const input_declaration& to = facts.graph.inputs[static_cast<std::size_t>(input)];
            to.element == element_type::any && element_of(to, request.types) != element_type::f32 &&
            rounded.insert(term.output).second)
            of(term.of_queries, false) += sizeof(float) * width;
    }
    return sums;
}

}  // namespace attune::generators::inline plans
