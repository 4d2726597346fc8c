#pragma once
#include "kernel/kernel_list.hpp"

#include <string>

namespace attune::generators::inline emit {

/// A variant's name in C: my_alibi for my::alibi.
std::string c_name(std::string_view variant);

/// Writes the C header of the variants: for each its handle, a struct of its arguments and the call that takes it.
/// Throws std::runtime_error if two variants would have one name.
void emit_c_header(std::span<const variant> variants, std::span<const listed_kernel> kernels, const std::string& file);

/// The C++ source of those handles, for the registry.
std::string c_handles(std::span<const variant> variants);

}  // namespace attune::generators::inline emit
