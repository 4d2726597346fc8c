#pragma once
#include "kernel/kernel_request.hpp"

namespace attune::generators {

/// What is used for a gradient. Throws std::runtime_error, a sentence, for targets that have no gradients yet.
cpu_gradient default_cpu_gradient(const kernel_request& request);

}  // namespace attune::generators
