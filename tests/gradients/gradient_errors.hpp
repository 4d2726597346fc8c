#pragma once
#include "gradient_call.hpp"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#ifndef ATTUNE_GOLDEN_TARGET
#define ATTUNE_GOLDEN_TARGET ""
#endif

namespace attune::testing {

inline constexpr std::string_view target = ATTUNE_GOLDEN_TARGET;  ///< of all calls; empty: the CPU

/// The largest error of a gradient by kernels, by its largest number, at a shape.
template <const auto& Forward, const auto& Gradient>
double error_of(const support::shape& s, std::vector<std::int32_t> lengths = {},
                element_type element = element_type::f32) {
    gradient_call call(dsl::ir_of<Forward>, dsl::ir_of<Gradient>, s, 7, std::move(lengths), element);
    call.run(detail::table_of<Gradient>(), {.threads = 2, .target = target});
    return call.error();
}

inline constexpr double allowed = 1e-5;  ///< of f32

}  // namespace attune::testing
