#include "execution/call_threads.hpp"

#include "execution/pool.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>

namespace attune::detail {
namespace {

using clock = std::chrono::steady_clock;

/// The work of one thread if the others sleep, and if they are awake: 14 to 45 microseconds, and 6 to 20.
constexpr std::int64_t of_sleeping = 900'000, of_awake = 400'000;

int shared_by(std::int64_t work, std::int64_t of_thread, int threads) {
    return static_cast<int>(std::clamp<std::int64_t>(work / of_thread, 1, threads));
}

/// The end of the last call, of any thread, that is shared only because it follows another one.
constinit std::atomic<clock::rep> last_end{std::numeric_limits<clock::rep>::min() / 2};

}  // namespace

int threads_worth(std::int64_t work, int threads) { return shared_by(work, of_sleeping, threads); }

call_threads::call_threads(std::int64_t work, int threads, bool are_attunes)
    : count_(threads_worth(work, threads)), depends_(are_attunes && shared_by(work, of_awake, threads) > count_) {
    if (depends_ &&
        clock::now() - clock::time_point(clock::duration(last_end.load(std::memory_order_relaxed))) < pool::time_awake)
        count_ = shared_by(work, of_awake, threads);
}

call_threads::~call_threads() {
    if (depends_) last_end.store(clock::now().time_since_epoch().count(), std::memory_order_relaxed);
}

}  // namespace attune::detail
