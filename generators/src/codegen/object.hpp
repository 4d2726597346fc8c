#pragma once
#include "kernel/kernel_list.hpp"
#include "ptx/assembler.hpp"

#include <string>

namespace attune::generators::inline codegen {

/// The version of the compiling Halide: "21.0.0".
std::string halide_version();

/// Compiles the kernels, all of this ISA level, and for each the function that says which blocks it visits, into one
/// object, which is empty without kernels. With `checked` they have AddressSanitizer in them (Halide's feature asan),
/// for a program that is linked with it. With an `assembler` CUDA kernels are images with machine code in them. A line
/// of progress a kernel goes to stderr. Throws std::runtime_error, which names the variant, if a graph cannot be
/// compiled.
void emit_object(std::span<const listed_kernel> kernels, const level& isa, const std::string& file,
                 bool checked = false, const assembler* assembles = nullptr);

}  // namespace attune::generators::inline codegen
