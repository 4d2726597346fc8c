#pragma once
#include "kernel/level.hpp"

#include <Halide.h>

namespace attune::generators::inline codegen {

/// What Halide is told to compile for.
Halide::Target halide_target(const level& isa);

}  // namespace attune::generators::inline codegen
