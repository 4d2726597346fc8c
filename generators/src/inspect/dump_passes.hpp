#pragma once
#include "kernel/kernel_list.hpp"

#include <span>
#include <string>

namespace attune::generators::inline inspect {

/// Writes each kernel's statement after Halide's lowering and after each of attune's passes, into
/// `folder`/<symbol>/<number>_<pass>.stmt. With `checked` the kernels contain AddressSanitizer, as in emit_object. If a
/// kernel cannot be compiled, its passes until then and those of all other kernels are written; then std::runtime_error
/// is thrown as by emit_object.
void dump_passes(std::span<const listed_kernel> kernels, const std::string& folder, bool checked = false);

}  // namespace attune::generators::inline inspect
