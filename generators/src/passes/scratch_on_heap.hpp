#pragma once
#include <Halide.h>

namespace attune::generators::inline passes {

/// A function as Halide lowered it, its scratch taken from the heap and so from the workspace: a call is to leave the
/// caller's stack to the caller. What is small enough to be registers stays where it is.
///
/// What a loop indexes cannot be registers: of that 4 KB stay, the rest goes to the heap, too.
/// Halide puts up to 16 KB of constant size on the stack, each time anew. What lies in a loop is taken once, before it.
Halide::Internal::Stmt scratch_on_heap(const Halide::Internal::Stmt& body);

}  // namespace attune::generators::inline passes
