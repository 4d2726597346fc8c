#include "analysis/mask_class.hpp"

#include <algorithm>
#include <vector>

namespace attune::generators::inline analysis {
namespace {

/// kv_idx >= q_idx - width, perhaps with either end of the keys or of the queries beside the indices.
bool begins_near_query(const formula& f, const graph_ir& graph, const std::vector<dependence>& depends) {
    constexpr std::int64_t longest = 1024;
    if (f.what != formula::is::positive) return false;
    bool has_query = false, has_key = false, is_told = false;  // the width, by the call
    for (const auto& [number, factor] : f.sum.terms) {
        const operation op = graph.nodes[number].op;
        if (op == operation::q_idx)
            has_query = factor == -1;
        else if (op == operation::kv_idx)
            has_key = factor == 1;
        else if (!depends[number].uniform())
            return false;
        else if (op != operation::query_length && op != operation::key_length && op != operation::kv_lengths)
            is_told = true;
    }
    return has_query && has_key && (is_told || f.sum.constant <= longest + 1);
}

}  // namespace

masking masking_of(const graph_ir& graph, const std::vector<dependence>& depends, formula_reader reader) {
    masking found = masking::none;
    for (const instruction& node : graph.nodes) {
        if (node.op != operation::mask) continue;
        found = std::max(found, masking::some);
        const formula visible = reader.condition(node.arguments[1]);
        const std::vector<formula> alone{visible};
        for (const formula& each : visible.what == formula::is::all ? visible.parts : alone)
            if (begins_near_query(each, graph, depends)) found = masking::window;
    }
    return found;
}

}  // namespace attune::generators::inline analysis
