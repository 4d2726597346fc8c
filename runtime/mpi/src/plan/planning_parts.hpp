#pragma once
#include <attune/mpi/plan.hpp>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

/// What plans of many queries and of few have in common.
namespace attune::mpi::detail {

/// A hash of integers.
struct hash_of_integers {
    std::uint64_t value = 1;
    void add(std::uint64_t number) {
        value = (value ^ number) * 0x9e3779b97f4a7c15;
        value ^= value >> 32;
    }
};

/// Refuses kernels of another version, and what cannot be planned.
void check(const planning& what, std::span<const graph_to_plan> graphs);

/// What all ranks must plan alike.
void state(statement& mine, const planning& what, std::span<const graph_to_plan> graphs);

/// What travels in the calls of a graph.
exchange_plan exchange_of(const graph_to_plan& each, const planning& of);

/// Refuses heads that cannot be shared as the plan says.
void check_head_parts(const planning& what, const exchange_plan& graph, int ranks, bool deterministic);

/// Refuses graphs that make gradients.
void check_gradients(std::span<const graph_to_plan> graphs, std::string_view expected, std::string_view attempt);

/// A plan of decode: which rank has which keys, and who joins what.
layout plan_of_decode(context& world, const planning& what, std::span<const graph_to_plan> graphs,
                      const attune::options& how);

/// Every rank's positions, which together are all tokens.
std::vector<std::vector<std::int32_t>> own_positions(context& world, const planning& what);

}  // namespace attune::mpi::detail
