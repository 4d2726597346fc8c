#pragma once
#include "../golden/golden.hpp"

/// Graphs of variants.hpp whose gradients have kernels: the forward pass by the reference, what is made of it by them.
namespace attune::testing {
std::vector<recipe> gradient_kernel_cases();
}
