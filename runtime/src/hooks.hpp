#pragma once
#include <attune/runtime/kernel_table.hpp>

namespace attune::detail {

/// Runs a kernel's entry with argv whose first place is free for the user context. Memory, threads and errors go through attune, whatever
/// Halide runtime the application has otherwise. Throws attune::error with what the kernel or a task said.
void invoke(int (*entry)(void**), void** arguments, int threads);

}  // namespace attune::detail
