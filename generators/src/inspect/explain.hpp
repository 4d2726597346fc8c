#pragma once
#include "inspect/explain_cost.hpp"
#include "kernel/kernel_list.hpp"

#include <string>

namespace attune::generators {

/// What was compiled, for people: formula, inputs and outputs, which blocks are skipped and why, the choices where
/// conventions differ, what a call of these sizes costs, kernels with their schedules.
std::string explain_text(std::span<const variant> variants, std::span<const listed_kernel> kernels,
                         const call_sizes& call);

/// The same for programs: a JSON array, one object a variant.
std::string explain_json(std::span<const variant> variants, std::span<const listed_kernel> kernels,
                         const call_sizes& call);

}  // namespace attune::generators
