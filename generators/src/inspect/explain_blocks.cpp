#include "inspect/explain_blocks.hpp"

#include "base/formatting.hpp"
#include "block_mask/block_mask.hpp"
#include "inspect/node_text.hpp"
#include "stages/precomputed.hpp"
#include "stages/subblocks.hpp"

#include <attune/ir/visibility.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>

namespace attune::generators::inline inspect {
using namespace Halide;

namespace {

/// The conditions under which a score is visible, one and the other together: of masks, of where(c, s, -inf).
struct visible_where {
    int condition;
    bool negated;  ///< the pair is visible if it does not hold
};

void conditions_of(const graph_ir& graph, int at, bool negated, std::vector<visible_where>& all) {
    const instruction& node = graph.nodes[at];
    if (node.op == (negated ? operation::logical_or : operation::logical_and)) {
        conditions_of(graph, node.arguments[0], negated, all);
        return conditions_of(graph, node.arguments[1], negated, all);
    }
    if (node.op == operation::logical_not) return conditions_of(graph, node.arguments[0], !negated, all);
    all.push_back({at, negated});
}

/// Masks and infinities that a score's visibility comes from; `tensors`: those whose elements may be -infinity.
void collect(const graph_ir& graph, const std::vector<dependence>& depends, int at, std::set<int>& seen,
             std::vector<visible_where>& conditions, std::set<int>& tensors) {
    if (!seen.insert(at).second) return;
    const instruction& node = graph.nodes[at];
    const visibility of = visibility_of(node);
    if (of == visibility::always) return;
    if (node.op == operation::load && depends[at].query && depends[at].key)
        tensors.insert(graph.nodes[node.arguments[0]].input);
    if (of == visibility::where_kept) conditions_of(graph, node.arguments[1], false, conditions);
    if (of == visibility::as_chosen)
        for (const int branch : {1, 2})
            if (visibility_of(graph.nodes[node.arguments[branch]]) == visibility::never)
                conditions_of(graph, node.arguments[0], branch == 1, conditions);
    for (int i = 0; i < node.argument_count; ++i) collect(graph, depends, node.arguments[i], seen, conditions, tensors);
}

/// Tensors that a node reads by query and key together.
void dense_tensors(const graph_ir& graph, const std::vector<dependence>& depends, int at,
                   std::set<std::string>& names) {
    const instruction& node = graph.nodes[at];
    if (node.op == operation::load && depends[at].query && depends[at].key) {
        const instruction& tensor = graph.nodes[node.arguments[0]];
        names.emplace(tensor.op == operation::input ? graph.inputs[tensor.input].name : about(tensor.op).text);
    }
    for (int i = 0; i < node.argument_count; ++i) dense_tensors(graph, depends, node.arguments[i], names);
}

std::string joined(const std::set<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

std::string sentence(const block_reason& r, std::size_t tables, const std::set<std::string>& dense) {
    if (!r.skips && !r.unmasked && !dense.empty())
        return joined(dense) + (dense.size() > 1 ? " are" : " is") +
               " read by query and key together: nothing is known of a block before it is visited";
    if (!r.skips && !r.unmasked)
        return "its values over a block have no bounds that could be computed without looking at pairs";
    std::string text =
        tables == 0
            ? "the indices' ranges over a block decide"
            : fmt::format("the smallest and largest values of each tile decide, tabulated once a call ({} table{})",
                          tables, tables > 1 ? "s" : "");
    if (!r.skips) text += "; only whether a block is visible throughout";
    if (!r.unmasked) text += "; visited blocks are masked pair by pair";
    return text;
}

[[noreturn]] void refuse(const Halide::Error& problem) {  // not a std::exception
    throw std::runtime_error(std::string("Halide could not say which blocks are visited: ") + problem.what());
}

}  // namespace

std::string sentence_of(const block_reason& reason) {
    return (reason.skips ? "skips: " : "skips nothing: ") + reason.why;
}

std::vector<block_reason> block_reasons(const kernel_request& request) try {
    const auto& [graph, depends, core, hides, no_decode, gradient, of_heads, sizes, wraps, infinities] = *request.facts;
    if (!core.has_core()) return {};
    std::vector<visible_where> conditions;
    std::set<int> seen, tensors;
    for (const plan* each : core.cores()) collect(graph, depends, each->scores, seen, conditions, tensors);

    std::vector<block_reason> reasons;
    std::set<std::string> said;
    kernel_frame frame(request);
    const precomputed_tensors first(frame);
    for (const auto& [condition, negated] : conditions) {
        const std::string text = text_of(graph, condition);
        block_reason reason{negated ? fmt::format("!({})", text) : text, {}, {}, {}, {}};
        if (!said.insert(reason.condition).second) continue;

        tile_tables tables(request, frame.inputs);
        const Var q("q"), k("k"), h("h"), b("b");
        const verdict holds = tile_mask(tables, {q, k, h, b}).decide(condition), visible = negated ? !holds : holds;
        reason.skips = !is_const_one(Internal::simplify(visible.may)),
        reason.unmasked = !is_const_zero(Internal::simplify(visible.must));
        std::set<std::string> dense;
        dense_tensors(graph, depends, condition, dense);
        const std::size_t count = tables.sizes().size();
        reason.how = !reason.skips && !reason.unmasked ? "nothing" : count == 0 ? "intervals" : "tables";
        reason.why = sentence(reason, count, dense);
        reasons.push_back(std::move(reason));
    }
    for (const int tensor : tensors) {
        const element_type element = graph.inputs[tensor].element;
        if (is_integer(element) || element == element_type::boolean) continue;
        const std::string name(graph.inputs[tensor].name);
        reasons.push_back(
            {fmt::format("-infinity in {}", name), false, false, "nothing",
             name + " is read by query and key together: nothing is known of a block before it is visited"});
    }
    return reasons;
} catch (const Halide::Error& problem) {
    refuse(problem);
}

cost bytes_of_tables(const kernel_request& request, const call_sizes& call) try {
    const plan& core = request.core();
    cost total;
    if (core.has_core()) {
        kernel_frame frame(request);
        const precomputed_tensors first(frame);
        const kernel_request parts = subblocks::in_subblocks(request);
        std::map<std::tuple<bool, bool, bool, bool>, int> bytes;  // bytes of a tile, by its axes
        for (const plan* each : core.cores()) {
            tile_tables tables(parts, frame.inputs);
            const Var q("q"), k("k"), h("h"), b("b");
            tile_mask(tables, {q, k, h, b}).visible(each->scores);
            for (const tile_tables::size& table : tables.sizes())
                bytes[{table.of_queries, table.by_batch, table.by_head, table.places > 0}] +=
                    table.bytes * std::max(table.places, 1);
        }
        for (const auto& [of, all] : bytes) {
            const auto [of_queries, by_batch, by_head, of_pairs] = of;
            const auto [query_block, key_block] = parts.blocks();
            const int block = of_queries ? query_block : key_block;
            total.formula += fmt::format("{}{}{}{} ceil({} / {})", total.formula.empty() ? "" : " + ", all,
                                         by_batch ? " B" : "", by_head ? " H" : "", of_queries ? "Lq" : "Lk", block);
            if (of_pairs) total.formula += fmt::format(" ceil(Lk / {})", key_block);
            total.value += all * (by_batch ? call.batches : 1) * (by_head ? call.heads : 1) *
                           std::ceil((of_queries ? call.queries : call.keys) / block) *
                           (of_pairs ? std::ceil(call.keys / key_block) : 1);
        }
    }
    return total.formula.empty() ? cost{std::string(1, '0'), 0} : total;
} catch (const Halide::Error& problem) {
    refuse(problem);
}

}  // namespace attune::generators::inline inspect
