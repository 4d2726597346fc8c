#pragma once
#include "kernel_list.hpp"

#include <string>

namespace attune::generators {

/// What was compiled, for people: formula, inputs and outputs with their axes, kernels with their schedules.
std::string explain_text(std::span<const variant> variants, std::span<const listed_kernel> kernels);

/// The same for programs: a JSON array, one object a variant.
std::string explain_json(std::span<const variant> variants, std::span<const listed_kernel> kernels);

}  // namespace attune::generators
