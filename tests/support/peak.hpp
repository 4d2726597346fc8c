#pragma once
#include <string_view>

namespace attune::support {

/// Measured f32 multiply-add rate of `threads` threads at an ISA level ("x86-64-v3", ...), in GFLOP/s: what no kernel of that level exceeds.
/// Takes about 0.1 s the first time a pair is asked for.
double fma_peak_gigaflops(int threads, std::string_view target);

/// Measured rate at which `threads` threads together read memory that no cache holds, in GB/s. Takes about 0.5 s.
double read_gigabytes(int threads);

}  // namespace attune::support
