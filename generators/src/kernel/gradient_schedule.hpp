#pragma once
#include "kernel/kernel_request.hpp"

namespace attune::generators {

/// Of a gradient's kernel. Blocks of queries and keys are equally long. Tiles of query_tile queries, in lanes, and
/// key_tile keys are made by products over the depth; rows of sums `value_tile` channels at a time, in lanes, `chunk`
/// sums in registers. Throws std::runtime_error, a sentence, for types and targets that have no gradients yet.
cpu_prefill gradient_schedule(const kernel_request& request);

}  // namespace attune::generators
