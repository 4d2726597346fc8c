#include "execution/pool.hpp"

#include "execution/threads.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <thread>

namespace attune::detail {
namespace {

std::atomic<pool*> process_pool{nullptr};

/// A thread that inherits a mask of all signals: the application's handlers run on its own threads.
class signals_blocked {
public:
    signals_blocked() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~signals_blocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    signals_blocked(const signals_blocked&) = delete;

private:
    sigset_t before_;
};

/// Waits until it is so, but not for long. Whoever needs the CPU gets it.
template <class Ready> void look_for(Ready ready) {
    const auto end = std::chrono::steady_clock::now() + pool::time_awake;
    while (!ready() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

}  // namespace

pool& pool::instance() {
    if (pool* existing = process_pool.load(std::memory_order_acquire)) return *existing;
    static std::once_flag once;
    // The child of a fork has none of the threads and may have inherited a locked mutex: it leaves the old pool alone.
    std::call_once(
        once, [] { pthread_atfork(nullptr, nullptr, [] { process_pool.store(nullptr, std::memory_order_release); }); });
    auto* made = new pool;
    pool* expected = nullptr;
    if (process_pool.compare_exchange_strong(expected, made, std::memory_order_acq_rel)) return *made;
    delete made;
    return *expected;
}

void pool::loop::work() {
    for (;;) {
        // Neighbouring tasks read neighbouring memory: a thread takes several while there are many.
        const int left = count - index.load(std::memory_order_relaxed), together = std::clamp(left / share, 1, 8);
        for (int at = index.fetch_add(together, std::memory_order_relaxed), end = at + together; at < end; ++at) {
            if (at >= count) return;
            if (task(state, count - 1 - at))
                continue;  // from the end: under a causal mask later tasks are heavier, and the last to run should be
                           // light
            index.store(std::numeric_limits<int>::max() / 2, std::memory_order_relaxed);
            return;
        }
    }
}

void pool::start(int workers) {
    const signals_blocked blocked;
    try {
        for (; workers_ < workers; ++workers_) std::thread([this] { serve(); }).detach();
    } catch (const std::exception&) {
        // No more threads, or no memory for one: the loop is done by those there are.
    }
}

/// A loop that has something left to begin and a place for one more, which has joined it: of those that share the
/// places `within`, who has one there; if that is null, of all. Under the mutex.
pool::loop* pool::joined(const places* within) {
    for (loop** at = &open_; *at; at = &(*at)->next) {
        loop& it = **at;
        if (within && it.shared != within) continue;
        if (it.shared && it.index.load(std::memory_order_relaxed) >= it.count) continue;
        if (it.shared && !within) {
            if (it.shared->load(std::memory_order_relaxed) == 0) continue;
            it.shared->fetch_sub(1, std::memory_order_relaxed);  // only ever under the mutex
        }
        if (--it.wanted == 0) *at = it.next;
        ++it.busy;
        return &it;
    }
    return nullptr;
}

void pool::work(loop& on, std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    if (on.cpu >= 0 && current_cpu() == on.cpu) leave_cpu(on.cpu);
    on.work();
    lock.lock();
}

/// A thread without a loop, until there is another one.
void pool::idle(std::unique_lock<std::mutex>& lock) {
    const unsigned seen = offers_.load(std::memory_order_relaxed);
    ++looking_;
    lock.unlock();
    look_for([&] { return offers_.load(std::memory_order_relaxed) != seen; });
    lock.lock();
    --(expected_ > 0 ? expected_ : looking_);
    offered_.wait(lock, [&] { return offers_.load(std::memory_order_relaxed) != seen; });
}

/// How many of these helpers look for a loop anyhow, and need not be woken. Under the mutex.
int pool::awake(int helpers) {
    const int count = std::min(helpers, looking_);
    looking_ -= count, expected_ += count;
    return count;
}

void pool::serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
        loop* const on = joined(nullptr);
        if (!on) {
            idle(lock);
            continue;
        }
        work(*on, lock);
        if (on->shared) on->shared->fetch_add(1, std::memory_order_relaxed);  // this thread looks who needs it
        if (--on->busy == 0) left_.notify_all();  // under the lock: afterwards the loop may be gone
    }
}

void pool::close(loop& done, bool helps_others) {
    std::unique_lock lock(mutex_);
    for (loop** at = &open_; *at; at = &(*at)->next)
        if (*at == &done) {
            *at = done.next;
            break;
        }
    if (done.busy > 0 && !helps_others && !borrows_) {
        lock.unlock();
        look_for([&] { return done.busy.load(std::memory_order_relaxed) == 0; });
        lock.lock();
    }
    for (;;) {
        loop* on = nullptr;
        left_.wait(lock, [&] { return done.busy == 0 || (helps_others && (on = joined(done.shared)) != nullptr); });
        if (!on) return;
        work(*on, lock);
        if (--on->busy == 0) left_.notify_all();
    }
}

/// A thread that another call, or a task of another pool, brings: until there is nothing left that it could do.
void pool::help(loop& until) {
    std::unique_lock lock(mutex_);
    for (;;) {
        loop* on = nullptr;
        left_.wait(lock, [&] { return (on = joined(nullptr)) != nullptr || is_done(until); });
        if (!on) return;
        work(*on, lock);
        if (on->shared) on->shared->fetch_add(1, std::memory_order_relaxed);
        --on->busy;
        left_.notify_all();
    }
}

void pool::run(int count, int helpers, body task, void* state, places* shared, bool helps_others) {
    loop offer{.task = task,
               .state = state,
               .count = count,
               .share = 8 * (helpers + 1),
               .cpu = helpers > 0 && !borrows_ ? current_cpu() : -1,
               .wanted = helpers,
               .shared = shared};
    int asleep = helpers;
    if (helpers > 0) {
        const std::lock_guard lock(mutex_);
        if (workers_ < helpers && !borrows_) start(helpers);
        loop** end = &open_;
        while (*end) end = &(*end)->next;
        *end = &offer;
        offers_.fetch_add(1, std::memory_order_relaxed);
        asleep -= awake(helpers);
    }
    if (asleep == 1)
        offered_.notify_one();
    else if (asleep > 1)
        offered_.notify_all();
    if (helpers > 0 && shared) left_.notify_all();
    offer.work();
    if (helpers > 0) close(offer, helps_others);
}

}  // namespace attune::detail
