#pragma once
#include <Halide.h>

namespace attune::generators::inline passes {

/// `loop`, over a constant number of rows from 0 on, with `rows` iterations at a time, or so many as divide them all. A
/// loop that reads row min(i, last) of a tensor, i one more each iteration and last what can be read before the loop,
/// asks of each row whether it exists. Where the row of the last iteration does, none is asked: addresses are then a
/// stride apart, and no multiplication stands before a load.
Halide::Internal::Stmt rows_at_a_time(const Halide::Internal::For* loop, int rows);

}  // namespace attune::generators::inline passes
