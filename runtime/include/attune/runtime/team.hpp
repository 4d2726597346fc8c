#pragma once
#include <attune/runtime/threads.hpp>

#include <array>
#include <atomic>
#include <functional>
#include <vector>

namespace attune {

/// Threads that an application already runs side by side, such as those of an OpenMP region or of an engine that gives
/// each operation to all of its threads. One object serves any number of regions, one at a time:
///
///     std::barrier meet(n);
///     attune::team team(n, [&] { meet.arrive_and_wait(); });
///     team.run(i, [&] { call(k = K, v = V); });  // in thread i of the n, each of which comes here
///
/// Worker 0 makes the calls, and the others do their share of the tasks, as they wait at the application's own barrier.
class team {
public:
    /// `barrier` returns in a worker once all of them have called it, any number of times; what was written before is
    /// seen behind it. It throws nothing. Throws attune::error unless there is a worker and, with several, a barrier.
    team(int workers, std::function<void()> barrier);
    team(const team&) = delete;

    /// To be called by every worker, with its number from 0. Worker 0 runs `calls`: attune's calls in it use all
    /// workers, unless options say otherwise. The others run the tasks of these calls, and return when it has returned.
    /// An exception of `calls` is thrown in worker 0. A number that no worker has throws in its own thread. A region
    /// that worker 0 begins within one of the same team is a part of that one.
    void run(int worker, const std::function<void()>& calls);

    int workers() const { return static_cast<int>(next_.size()); }

private:
    /// What a barrier begins: a loop, or the end of a region. There are two, taken in turn: a worker may still look at
    /// the one before while worker 0 writes the next.
    struct job {
        const std::function<void(int)>* task{};
        int count{}, threads{};
        std::atomic<int> next{0};
        void work();
    };
    struct alignas(64) turn {
        int job{};
    };

    void loop(int count, int threads, const std::function<void(int)>& task);
    void lead(const std::function<void()>& calls);
    void follow(int worker);
    job& next_job(int worker);

    std::function<void()> barrier_;
    parallel_for pool_;
    std::array<job, 2> jobs_{};
    std::vector<turn> next_;  ///< of each worker
    bool in_loop_ = false;    ///< written by worker 0 between barriers
};

}  // namespace attune
