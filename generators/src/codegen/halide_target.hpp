#pragma once
#include "kernel/level.hpp"

#include <Halide.h>

namespace attune::generators::inline codegen {

/// The target for which Halide compiles.
Halide::Target halide_target(const level& isa);

}  // namespace attune::generators::inline codegen
