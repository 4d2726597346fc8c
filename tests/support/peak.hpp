#pragma once
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace attune::support {

/// Measured f32 multiply-add rate of `threads` threads at an ISA level ("x86-64-v3", ...), in GFLOP/s: what no kernel of that level exceeds.
/// Takes about 0.1 s the first time a pair is asked for.
double fma_peak_gigaflops(int threads, std::string_view target);

/// Measured rate at which `threads` threads together read memory that no cache holds, in GB/s. Takes about 0.5 s.
double read_gigabytes(int threads);

/// The seconds in which `threads` threads read these bytes once, a part each, and do nothing with them, `repeats` times after one that is not counted: what a call that reads
/// them is compared with interleaved, as what memory gives a second moves with whoever else asks it. The threads are there when the clock starts, and have found CPUs of their own.
std::vector<double> seconds_to_read(std::span<const std::span<const std::byte>> pieces, int threads, int repeats);

}  // namespace attune::support
