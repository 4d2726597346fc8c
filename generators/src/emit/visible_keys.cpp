#include "emit/visible_keys.hpp"

#include <attune/runtime/detail/kernel_table.hpp>

#include <algorithm>
#include <utility>
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

/// A scalar, or a choice between scalars and constants by their order: the runtime computes it without a check.
bool is_chosen_of_scalars(const graph_ir& graph, int node) {
    const instruction& n = graph.nodes[node];
    if (n.op == operation::scalar || n.op == operation::constant) return n.kind == kind::integer;
    const family of = family_of(n.op);
    return (n.op == operation::where || of == family::comparison || of == family::logic) &&
           std::all_of(n.arguments.begin(), n.arguments.begin() + n.argument_count,
                       [&](node_id each) { return is_chosen_of_scalars(graph, each); });
}

/// A number of keys that the runtime can compute; below 0 there is none.
std::optional<seen_keys> counted(linear keys, const graph_ir& graph) {
    if (keys.terms.size() > attune::kernel::key_bound{}.numbers.size()) return {};
    for (const auto& [number, factor] : keys.terms)
        if (!is_chosen_of_scalars(graph, number)) return {};
    if (keys.terms.empty()) keys.constant = std::max<std::int64_t>(keys.constant, 0);
    return seen_keys{std::move(keys), true};
}

/// kv_idx <= a number of the call: the keys from the first one on.
std::optional<seen_keys> first_keys(const formula& f, const graph_ir& graph) {
    if (f.what != formula::is::positive || !f.exact.empty()) return {};
    linear rest = f.sum;
    const auto key = std::ranges::find_if(
        rest.terms, [&](const auto& term) { return graph.nodes[term.first].op == operation::kv_idx; });
    if (key == rest.terms.end() || key->second != -1) return {};
    rest.terms.erase(key);
    return counted(std::move(rest), graph);
}

/// The bound that is better for any call, else the constant one.
bool is_tighter(const seen_keys& a, const seen_keys& b) {
    if (a.most.terms == b.most.terms) return a.most.constant < b.most.constant;
    return a.constant() && !b.constant();
}

std::optional<seen_keys> visible_keys_of(const formula& visible, const graph_ir& graph,
                                         const std::vector<dependence>& depends);

/// The keys of the rest that each alternative leaves, added up over the alternatives: an upper bound.
std::optional<seen_keys> keys_of_alternatives(const formula& any, const formula& rest, const graph_ir& graph,
                                              const std::vector<dependence>& depends) {
    seen_keys all{{}, any.parts.size() == 1};
    for (const formula& each : any.parts) {
        const auto some = visible_keys_of(each && rest, graph, depends);
        if (!some) return {};
        all.most = all.most + some->most, all.in_one_stretch = all.in_one_stretch && some->in_one_stretch;
    }
    return all;
}

std::optional<seen_keys> visible_keys_of(const formula& visible, const graph_ir& graph,
                                         const std::vector<dependence>& depends) {
    if (visible.what == formula::is::positive) return first_keys(visible, graph);
    std::optional<seen_keys> fewest;
    const auto bound = [&fewest](const std::optional<seen_keys>& by) {
        if (by && (!fewest || is_tighter(*by, *fewest))) fewest = by;
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
            bound(counted(first.sum + last.sum + -1, graph));
        }
    return fewest;
}

}  // namespace

std::optional<seen_keys> visible_keys(const graph_facts& of) {
    formula_reader reader(of.graph, of.depends, of.wraps, of.makes_infinity);
    std::optional<seen_keys> most;
    for (const plan* each : of.core.cores()) {
        if (!each->has_core()) return {};
        const auto keys = visible_keys_of(reader.visible(each->scores), of.graph, of.depends);
        if (!keys || (most && most->most.terms != keys->most.terms)) return {};
        if (!most) most = keys;
        most->most.constant = std::max(most->most.constant, keys->most.constant);
        most->in_one_stretch = most->in_one_stretch && keys->in_one_stretch;
    }
    return most;
}

}  // namespace attune::generators::inline emit
