#include <attune/runtime/team.hpp>

#include "base/text.hpp"
#include "execution/threads.hpp"

#include <attune/runtime/error.hpp>

#include <algorithm>
#include <exception>
#include <utility>

namespace attune {

team::team(int workers, std::function<void()> barrier)
    : barrier_(std::move(barrier)),
      pool_([this](int count, int threads, const std::function<void(int)>& task) { loop(count, threads, task); }) {
    constexpr int most = 4096;
    if (workers < 1 || workers > most)
        detail::fail(detail::say("from 1 to ", most, " workers in attune::team"), std::to_string(workers),
                     "the number of threads that call attune::team::run");
    if (workers > 1 && !barrier_)
        detail::fail("a barrier for the workers of attune::team", "an empty function",
                     "what the threads of the application meet at");
    next_.resize(static_cast<std::size_t>(workers));
}

void team::run(int worker, const std::function<void()>& calls) {
    if (worker < 0 || worker >= workers())
        detail::fail(detail::say("a worker from 0 to ", workers() - 1, " in attune::team::run"), std::to_string(worker),
                     "the number of this thread among those of the team");
    if (worker == 0 && detail::team_of_this_thread().pool == &pool_) return calls();  // the others are in this region
    worker == 0 ? lead(calls) : follow(worker);
}

team::job& team::next_job(int worker) {
    int& turn = next_[static_cast<std::size_t>(worker)].job;
    return jobs_[static_cast<std::size_t>(std::exchange(turn, 1 - turn))];
}

void team::lead(const std::function<void()>& calls) {
    std::exception_ptr thrown;
    try {
        const detail::leading scope({&pool_, workers()});
        calls();
    } catch (...) {
        thrown = std::current_exception();  // the others are to leave first
    }
    if (workers() > 1) {
        next_job(0).task = nullptr;
        barrier_();
    }
    if (thrown) std::rethrow_exception(thrown);
}

void team::follow(int worker) {
    for (;;) {
        barrier_();
        job& it = next_job(worker);
        if (!it.task) return;
        if (worker < it.threads) it.work();
        barrier_();
    }
}

/// The application's loop for worker 0. A loop within a task of another is the task's own.
void team::loop(int count, int threads, const std::function<void(int)>& task) {
    if (in_loop_ || workers() == 1) {
        for (int i = 0; i < count; ++i) task(i);
        return;
    }
    job& it = next_job(0);
    it.task = &task, it.count = count, it.threads = threads;
    it.next.store(0, std::memory_order_relaxed);
    in_loop_ = true;
    barrier_();
    it.work();
    barrier_();
    in_loop_ = false;
}

void team::job::work() {
    const int share = 8 * std::max(threads, 1);
    for (;;) {
        // As attune's own threads do: several neighbours while there are many, and the heavy ones first.
        const int left = count - next.load(std::memory_order_relaxed), together = std::clamp(left / share, 1, 8);
        const int from = next.fetch_add(together, std::memory_order_relaxed);
        if (from >= count) return;
        for (int at = from; at < std::min(from + together, count); ++at) (*task)(count - 1 - at);
    }
}

}  // namespace attune
