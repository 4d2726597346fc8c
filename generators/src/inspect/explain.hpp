#pragma once
#include "inspect/explain_cost.hpp"
#include "kernel/kernel_list.hpp"

#include <string>

namespace attune::generators::inline inspect {

/// The compiled kernels, for people: the formula, inputs and outputs, the skipped blocks and why, the conventions, the
/// cost of a call of these sizes, and the kernels with their schedules.
std::string explain_text(std::span<const variant> variants, std::span<const listed_kernel> kernels,
                         const call_sizes& call);

/// The same for programs: a JSON array with an object for each variant.
std::string explain_json(std::span<const variant> variants, std::span<const listed_kernel> kernels,
                         const call_sizes& call);

}  // namespace attune::generators::inline inspect
