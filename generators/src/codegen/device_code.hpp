#pragma once
#include "ptx/assembler.hpp"

#include <Halide.h>

namespace attune::generators::inline codegen {

/// The module, in which PTX has become an image of it with machine code. Halide's runtime hands the bytes of either to
/// cuModuleLoadData, and reads nothing of them. Throws std::runtime_error if ptxas refuses a kernel.
Halide::Module with_machine_code(const Halide::Module& module, const assembler& assembles);

}  // namespace attune::generators::inline codegen
