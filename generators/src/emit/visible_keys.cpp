#include "emit/visible_keys.hpp"

#include "analysis/mask_formula.hpp"

#include <algorithm>
#include <vector>

namespace attune::generators::inline emit {
namespace {

/// kv_idx >= q_idx + ..., or <=, where the rest is one number for all queries and heads of a batch element.
bool moves_with_query(const formula& f, const graph_ir& graph, const std::vector<dependence>& depends) {
    if (f.what != formula::is::positive || !f.exact.empty()) return false;
    std::int64_t of_query = 0, of_key = 0;
    for (const auto& [number, factor] : f.sum.terms) {
        const operation op = graph.nodes[number].op;
        if (op == operation::q_idx)
            of_query = factor;
        else if (op == operation::kv_idx)
            of_key = factor;
        else if (!depends[number].uniform() || depends[number].head)
            return false;
    }
    return of_query == -of_key && (of_key == 1 || of_key == -1);
}

std::optional<std::int64_t> visible_keys_of(const formula& visible, const graph_ir& graph,
                                            const std::vector<dependence>& depends) {
    if (visible.what != formula::is::all) return {};
    std::optional<std::int64_t> fewest;
    for (const formula& first : visible.parts)
        for (const formula& last : visible.parts) {
            if (!moves_with_query(first, graph, depends) || !moves_with_query(last, graph, depends)) continue;
            // kv_idx - x + a >= 1 and x - kv_idx + b >= 1 hold of a + b - 1 keys.
            const linear both = first.sum + last.sum;
            if (!both.terms.empty()) continue;
            const std::int64_t keys = std::max<std::int64_t>(both.constant - 1, 0);
            fewest = std::min(keys, fewest.value_or(keys));
        }
    return fewest;
}

}  // namespace

std::optional<std::int64_t> visible_keys(const graph_facts& of) {
    formula_reader reader(of.graph, of.depends, of.wraps, of.makes_infinity);
    std::int64_t most = 0;
    for (const plan* each : of.core.cores()) {
        if (!each->has_core()) return {};
        const auto keys = visible_keys_of(reader.visible(each->scores), of.graph, of.depends);
        if (!keys) return {};
        most = std::max(most, *keys);
    }
    return most;
}

}  // namespace attune::generators::inline emit
