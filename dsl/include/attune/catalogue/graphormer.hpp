#pragma once
#include <attune/dsl.hpp>

/// Attention between the nodes of a graph (Graphormer, Ying et al. 2021).
namespace attune::catalogue {

using namespace dsl;

/// s + table[h, distance[b, q, k]], far and unreachable nodes in the last bucket. (attention-gym
/// generate_graphormer_spatial_bias)
template <class Table, class Distances>
constexpr auto graphormer_spatial(expression auto s, Table table, Distances distance) {
    return s + table(h, distance(b, q_idx, kv_idx));
}

/// s + (sum of E[h, n, types[b, q, k, n]] over n < K, n < length[b, q, k]) / max(length, 1): the edges on the path.
/// (attention-gym generate_graphormer_edge_bias)
template <class Table, class Types, class Lengths>
constexpr auto graphormer_edge(expression auto s, Table table, Types types, Lengths length) {
    constexpr auto n = bound_index<"step">;
    const auto on_path = length(b, q_idx, kv_idx);
    return s +
           sum(n, extent<1>(table), where(n < on_path, table(h, n, types(b, q_idx, kv_idx, n)), 0.0)) / max(on_path, 1);
}

}  // namespace attune::catalogue
