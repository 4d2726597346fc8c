#pragma once
#include <Halide.h>

namespace attune::generators::inline passes {

/// `loop`, over a constant number of rows from 0 on, with `rows` iterations at a time, or their largest common divisor
/// with the number of rows. A loop may read row min(i, last) of a tensor, with i one more each iteration and a `last`
/// that is known before the loop: it then asks for each row whether it exists. If the row of the last iteration exists,
/// the result asks for none: addresses are a stride apart, and no multiplication stands before a load.
Halide::Internal::Stmt rows_at_a_time(const Halide::Internal::For* loop, int rows);

}  // namespace attune::generators::inline passes
