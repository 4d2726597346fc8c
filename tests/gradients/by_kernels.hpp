#pragma once
#include "../golden/golden.hpp"
#include "variants.hpp"

namespace attune::testing {

/// The forward pass by the reference, what is made of it by kernels.
template <const auto& Forward, const auto& Gradient> recipe by_kernels(std::string_view stem) {
    return {stem, {graph_step{dsl::ir_of<Forward>, nullptr}, computes<Gradient>()}};
}

}  // namespace attune::testing
