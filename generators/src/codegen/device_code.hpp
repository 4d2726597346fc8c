#pragma once
#include "ptx/assembler.hpp"

#include <Halide.h>

namespace attune::generators::inline codegen {

/// The module with its PTX replaced by an image that holds machine code. Halide's runtime hands the bytes of either to
/// cuModuleLoadData without reading them. Throws std::runtime_error if ptxas refuses a kernel.
Halide::Module with_machine_code(const Halide::Module& module, const assembler& assembles);

}  // namespace attune::generators::inline codegen
