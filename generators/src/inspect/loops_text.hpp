#pragma once
#include "kernel/kernel_list.hpp"

#include <span>
#include <string>

namespace attune::generators::inline inspect {

/// The loops of a kernel as its schedule orders them, before Halide's lowering: a heading, and a line for each loop,
/// each function that is made there, and each of its definitions. Throws as lower().
std::string loops_text(const listed_kernel& kernel);

/// The same for all kernels, for programs: a JSON array with an object for each, whose `loops` are lines with their
/// depth.
std::string loops_json(std::span<const listed_kernel> kernels);

}  // namespace attune::generators::inline inspect
