#pragma once
#include <Halide.h>

namespace attune::generators::inline passes {

/// A function as Halide lowered it, with its scratch on the heap, and so in the workspace: a call leaves the caller's
/// stack to the caller. Allocations that are small enough to be registers stay.
///
/// Memory that a loop indexes cannot be registers: 4 KB of it stay, the rest goes to the heap. Halide puts up to 16 KB
/// of constant size on the stack, each time anew. An allocation in a loop is made once, before the loop.
Halide::Internal::Stmt scratch_on_heap(const Halide::Internal::Stmt& body);

}  // namespace attune::generators::inline passes
