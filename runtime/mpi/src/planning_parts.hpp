#pragma once
#include <attune/mpi/plan.hpp>

#include <cstdint>
#include <span>
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

void check(const planning& what, std::size_t graphs);

/// What all ranks must plan alike.
void state(statement& mine, const planning& what, std::span<const graph_to_plan> graphs);

/// Every rank's positions, which together are all tokens.
std::vector<std::vector<std::int32_t>> own_positions(context& world, const planning& what);

}  // namespace attune::mpi::detail
