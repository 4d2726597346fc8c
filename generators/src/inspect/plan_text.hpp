#pragma once
#include "kernel/kernel_list.hpp"

#include <span>
#include <string>

namespace attune::generators::inline inspect {

/// The decisions about a kernel, for people: a heading, and a line for each part of its plan.
std::string plan_text(const listed_kernel& kernel);

/// The same for all kernels, for programs: a JSON array with an object for each.
std::string plans_json(std::span<const listed_kernel> kernels);

}  // namespace attune::generators::inline inspect
