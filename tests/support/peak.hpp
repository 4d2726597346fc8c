#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The peak of a machine, measured beside the calls that are compared with it. A burst is short, and finds a moment
/// that is its own sooner than a call does: on a busy machine shares are too low, not too high.
namespace attune::support {

/// The instructions with which a kernel multiplies.
struct instruction {
    std::string_view name;         ///< "multiply-add", "vdpbf16ps", "tdpbf16ps"
    std::string_view level;        ///< the ISA level that has it; empty: every CPU that this was compiled for
    int lanes;                     ///< sums of a vector, or of a tile
    int pairs;                     ///< multiply-adds a lane
    int sums;                      ///< vectors of sums that do not wait for one another
    float (*chains)(long rounds);  ///< adds to each of them once a round

    double flops(long rounds) const { return 2.0 * sums * lanes * pairs * static_cast<double>(rounds); }
};

/// That of a kernel of a level ("x86-64-v3", ...) with a schedule, as explanation::schedule has it: the level's f32
/// multiply-add, or what multiplies bf16 where the schedule pairs such elements; what else such a kernel does, softmax,
/// is f32.
const instruction& instruction_of(std::string_view level, std::string_view schedule);

/// GFLOP/s of `threads` threads that do nothing else: the best of four bursts of some tenths of a millisecond. The
/// threads stay for the next time, asleep, and all of them run when the clock starts. Not for several callers at a
/// time. Throws std::runtime_error where this CPU lacks the instruction.
double burst_gigaflops(const instruction& what, int threads);

/// The rates that no kernel exceeds: of each instruction on so many threads the best burst so far.
class peaks {
public:
    using burst = std::function<double(const instruction&, int threads)>;
    explicit peaks(burst measure = burst_gigaflops) : measure_(std::move(measure)) {}

    /// One more burst; returns the best so far.
    double again(const instruction& what, int threads);

    /// The part of the peak that a rate is. A rate above it says that the bursts were slowed: more are made until one
    /// is as fast. Where none of 32 is, the share stays above 1, and `remark` says so.
    double share(double gigaflops, const instruction& what, int threads);

private:
    burst measure_;
    std::map<std::pair<const instruction*, int>, double> best_;
};

/// A warning for the reader of a share; empty for most.
std::string remark(double share, const instruction& what);

/// The seconds of each of `repeats` calls. A burst comes after the last, and between two where the calls since the last
/// burst took 20 ms or more: the best of both is of the same span. None comes before the first: on a busy machine the
/// threads of calls that follow a burst wait for whoever it kept waiting. `now` is the clock, in seconds; empty: the
/// steady one.
std::vector<double> seconds_beside(const std::function<void()>& burst, const std::function<void()>& call, int repeats,
                                   const std::function<double()>& now = {});

/// Measured rate at which `threads` threads together read memory that no cache holds, in GB/s. Takes about 0.5 s.
double read_gigabytes(int threads);

/// The seconds in which `threads` threads read these bytes once, a part each, and do nothing with them, `repeats` times
/// after one that is not counted: what a call that reads them is compared with, interleaved, as what memory gives
/// a second moves with whoever else asks it. The threads are there when the clock starts, and have found CPUs of their
/// own.
std::vector<double> seconds_to_read(std::span<const std::span<const std::byte>> pieces, int threads, int repeats);

}  // namespace attune::support
