#pragma once
#include "ptx/body.hpp"

namespace attune::generators::inline ptx {

/// Throws std::runtime_error if an instruction of a whole warp stands where a part of a warp may be alone, as in one
/// branch of a condition that differs between threads: a device would wait there for ever, or read registers of threads
/// that are elsewhere.
///
/// Blocks of threads are a multiple of 32 wide, so that all threads of a warp have the same %tid.y.
void check_convergence(const std::vector<step>& steps);

}  // namespace attune::generators::inline ptx
