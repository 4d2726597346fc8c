#pragma once
#include "stages/epilogue.hpp"
#include "stages/projections.hpp"
#include "stages/quadratic_outputs.hpp"

#include <deque>

namespace attune::generators::inline stages {

/// The stages of a kernel beside the pass over the keys.
struct kernel_stages {
    kernel_frame& frame;
    computed_tensors before;              ///< the attention
    epilogue rows;                        ///< and outputs, which may be none
    std::deque<quadratic_outputs> pairs;  ///< one a shape
    computed_tensors after;               ///< the attention
};

/// The pass over the keys of one attention core, with the numbers that it keeps of each row.
template <class State> struct pass_over_keys {
    State& state;
    const kernel_frame& frame;
};

}  // namespace attune::generators::inline stages
