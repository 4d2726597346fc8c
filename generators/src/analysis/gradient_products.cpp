#include "analysis/gradient_products.hpp"

namespace attune::generators {
namespace {

/// What a term's sums are multiplied by depends on.
dependence of_factors(const graph_ir& graph, const std::vector<dependence>& depends, const gradient_term& term) {
    std::vector<bool> has_sum;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        const instruction& it = graph.nodes[n];
        bool below = term.sums.contains(static_cast<int>(n));
        for (std::size_t i = 0; i < it.argument_count; ++i)
            below = below || has_sum[static_cast<std::size_t>(it.arguments[i])];
        has_sum.push_back(below);
    }
    const std::vector<bool> made = under(
        graph, {term.value}, [&](int n) { return !has_sum[static_cast<std::size_t>(n)] || term.sums.contains(n); });
    dependence all;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        if (!made[n] || has_sum[n]) continue;
        all.query |= depends[n].query, all.key |= depends[n].key, all.bound |= depends[n].bound;
    }
    return all;
}

}  // namespace

std::optional<gradient_product> product_of(const graph_ir& graph, const std::vector<dependence>& depends,
                                           const gradient_plan& plan, const gradient_term& term) {
    if (term.is != gradient_term::form::placed || term.sums.size() != 1) return {};
    const int channel = plan.sums[term.sums.begin()->second].channel;
    const instruction& deposit = graph.nodes[static_cast<std::size_t>(term.deposit)];
    gradient_product made;
    dependence& place = made.place;
    for (int i = 1; i < deposit.argument_count; ++i) {
        const dependence& index = depends[static_cast<std::size_t>(deposit.arguments[static_cast<std::size_t>(i)])];
        place.query |= index.query, place.key |= index.key, place.head |= index.head, place.batch |= index.batch;
        place.bound |= index.bound;
    }
    const auto decides = [&](int index) { return (place.bound >> index & 1) != 0; };
    made.by_position = place.query || place.key;
    if (channel < 0 || decides(channel) == made.by_position) return {};
    const dependence factors = of_factors(graph, depends, term);
    if (made.by_position ? factors.query || factors.key : (factors.bound >> channel & 1) != 0) return {};
    for (; made.lanes < term.over.size(); ++made.lanes)
        if (const auto index =
                static_cast<int>(graph.nodes[static_cast<std::size_t>(term.over[made.lanes].index)].integer);
            index != channel && decides(index))
            return made;
    return {};
}

}  // namespace attune::generators
