#pragma once
#include "call/bind/bind.hpp"
#include "call/shape/arguments.hpp"
#include "execution/workspace.hpp"

#include <HalideRuntime.h>

#include <array>
#include <cstdint>
#include <span>

#pragma GCC visibility push(hidden)
namespace attune::detail {

/// One argument as a kernel reads it: a buffer with its dimensions, or the value of a scalar.
struct bound_call::slot {
    halide_buffer_t buffer{};
    std::array<halide_dimension_t, max_rank> dimensions{};  // innermost first
    scalar_value value{};

    /// Kernels make all outputs in one loop: a row repeats along the value depth. Its own dimensions lie behind the
    /// first.
    void repeat_along_depth(int value_depth) {
        dimensions[0] = {0, value_depth, 0};
        buffer.dim = dimensions.data();
        ++buffer.dimensions;
    }
};

/// The memory of one run: the places of the arguments, and the rows and outputs that the kernel keeps for itself.
struct bound_call::lent {
    scratch memory, rows;
    std::array<std::int32_t, 2> of_keys;
    std::span<void*> argv;
    std::span<slot> kept;
};

}  // namespace attune::detail
#pragma GCC visibility pop
