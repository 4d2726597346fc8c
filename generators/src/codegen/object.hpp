#pragma once
#include "kernel/kernel_list.hpp"

#include <string>

namespace attune::generators {

/// That of the Halide which compiles: "21.0.0".
std::string halide_version();

/// Compiles the kernels, and for each the function that says which blocks it visits, into one object. All are of one
/// ISA level. With `checked` they have AddressSanitizer in them (Halide's feature asan), for a program that is linked
/// with it. A line of progress a kernel goes to stderr. Throws std::runtime_error, naming the variant, where a graph
/// cannot be compiled.
void emit_object(std::span<const listed_kernel> kernels, const std::string& file, bool checked = false);

/// Writes what each kernel's statement is once Halide has lowered it, and after each of attune's passes, into
/// `folder`/<symbol>/<number>_<pass>.stmt.
void dump_passes(std::span<const listed_kernel> kernels, const std::string& folder, bool checked = false);

/// Writes the source that defines attune::kernels_of for each variant: the table by which attune::run finds its
/// kernels. `header` is how that source includes the variant header; `kernels` are those of all ISA levels, most
/// demanding first.
void emit_registry(std::span<const variant> variants, std::span<const listed_kernel> kernels, const std::string& header,
                   const std::string& file);

}  // namespace attune::generators
