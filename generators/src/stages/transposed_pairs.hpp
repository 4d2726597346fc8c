#pragma once
#include "stages/kernel_frame.hpp"

#include <string>
#include <vector>

namespace attune::generators::inline stages {

/// A tensor of pairs has its keys side by side. It is read that way and transposed a square at a time; otherwise each
/// lane would come from a cache line of its own.
struct transposed_pairs {
    /// `load`: a node. `at`: the pair that `pair` names, innermost axis first: query in block, key in block, ...
    /// `prefix` begins the stages' names.
    transposed_pairs(const kernel_frame& f, int load, place at, const std::vector<Halide::Var>& pair,
                     const std::string& prefix);

    Halide::Func queries_in_lanes;  ///< numbers of pairs with queries in lanes
    Halide::Func rows;              ///< the same as they lie in memory, keys side by side
    Halide::Expr dense;             ///< whether keys have no gaps there
    quantity number;                ///< of the pair
};

}  // namespace attune::generators::inline stages
