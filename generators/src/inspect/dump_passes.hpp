#pragma once
#include "kernel/kernel_list.hpp"

#include <span>
#include <string>

namespace attune::generators {

/// Writes what each kernel's statement is once Halide has lowered it, and after each of attune's passes, into
/// `folder`/<symbol>/<number>_<pass>.stmt. With `checked` the kernels have AddressSanitizer in them, as in emit_object.
void dump_passes(std::span<const listed_kernel> kernels, const std::string& folder, bool checked = false);

}  // namespace attune::generators
