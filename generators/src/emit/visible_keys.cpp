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

/// kv_idx <= a constant: the keys from the first one on.
std::optional<seen_keys> first_keys(const formula& f, const graph_ir& graph) {
    if (f.what != formula::is::positive || !f.exact.empty() || f.sum.terms.size() != 1) return {};
    const auto [number, factor] = *f.sum.terms.begin();
    if (graph.nodes[number].op != operation::kv_idx || factor != -1) return {};
    return seen_keys{std::max<std::int64_t>(f.sum.constant, 0), true};
}

std::optional<seen_keys> visible_keys_of(const formula& visible, const graph_ir& graph,
                                         const std::vector<dependence>& depends);

/// At most what each alternative leaves of the rest, all together.
std::optional<seen_keys> keys_of_alternatives(const formula& any, const formula& rest, const graph_ir& graph,
                                              const std::vector<dependence>& depends) {
    seen_keys all{0, any.parts.size() == 1};
    for (const formula& each : any.parts) {
        const auto some = visible_keys_of(each && rest, graph, depends);
        if (!some) return {};
        all.most += some->most, all.in_one_stretch = all.in_one_stretch && some->in_one_stretch;
    }
    return all;
}

std::optional<seen_keys> visible_keys_of(const formula& visible, const graph_ir& graph,
                                         const std::vector<dependence>& depends) {
    if (visible.what == formula::is::positive) return first_keys(visible, graph);
    std::optional<seen_keys> fewest;
    const auto bound = [&fewest](const std::optional<seen_keys>& by) {
        if (by && (!fewest || by->most < fewest->most)) fewest = by;
    };
    if (visible.what == formula::is::any) return keys_of_alternatives(visible, always_true(), graph, depends);
    if (visible.what != formula::is::all) return {};
    std::size_t cases = 1;
    for (const formula& each : visible.parts)
        if (each.what == formula::is::any) cases *= std::max<std::size_t>(each.parts.size(), 1);
    constexpr std::size_t most_cases = 16;  // of more, alternatives are looked at one part at a time
    for (const formula& each : visible.parts) {
        if (each.what != formula::is::any) {
            bound(visible_keys_of(each, graph, depends));
            continue;
        }
        formula rest = always_true();
        for (const formula& other : visible.parts)
            if (&other != &each && (cases <= most_cases || other.what != formula::is::any)) rest = rest && other;
        bound(keys_of_alternatives(each, rest, graph, depends));
    }
    for (const formula& first : visible.parts)
        for (const formula& last : visible.parts) {
            if (!moves_with_query(first, graph, depends) || !moves_with_query(last, graph, depends)) continue;
            // kv_idx - x + a >= 1 and x - kv_idx + b >= 1 hold of a + b - 1 keys.
            const linear both = first.sum + last.sum;
            if (!both.terms.empty()) continue;
            bound(seen_keys{std::max<std::int64_t>(both.constant - 1, 0), true});
        }
    return fewest;
}

}  // namespace

std::optional<seen_keys> visible_keys(const graph_facts& of) {
    formula_reader reader(of.graph, of.depends, of.wraps, of.makes_infinity);
    seen_keys most{0, true};
    for (const plan* each : of.core.cores()) {
        if (!each->has_core()) return {};
        const auto keys = visible_keys_of(reader.visible(each->scores), of.graph, of.depends);
        if (!keys) return {};
        most = {std::max(most.most, keys->most), most.in_one_stretch && keys->in_one_stretch};
    }
    return most;
}

}  // namespace attune::generators::inline emit
