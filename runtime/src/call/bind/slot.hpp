#pragma once
#include "call/bind/bind.hpp"
#include "call/shape/arguments.hpp"

#include <HalideRuntime.h>

#include <array>

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

}  // namespace attune::detail
#pragma GCC visibility pop
