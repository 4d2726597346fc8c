#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#pragma GCC visibility push(hidden)
namespace attune::detail {

/// attune's own threads. A loop is offered to idle threads while the caller works on it, so that it ends even if none
/// is idle. Nested and simultaneous loops therefore cannot deadlock, and a child of fork(), which has no threads,
/// computes everything by itself until new ones are started.
class pool {
public:
    /// Does task `index`; false stops the loop (no further index is handed out).
    using body = bool (*)(void* state, int index);

    /// For so long a thread without a task looks for the next loop before it sleeps, and a caller for the end of its
    /// own: the loops of a call, and calls in a row, follow each other sooner than a thread is woken.
    static constexpr std::chrono::microseconds time_awake{20};

    /// The number of threads that all loops of one call together may still take. A thread takes a place when it joins
    /// one of them, and gives it back when it leaves.
    using places = std::atomic<int>;

private:
    struct loop {
        body task;
        void* state;
        int count;
        int share;                  // of the tasks that are left, one in so many is taken at a time
        int cpu;                    // the caller's
        int wanted;                 // helpers that may still join; guarded by mutex_
        places* shared;             // null: they need none
        std::atomic<int> busy{0};   // helpers that have joined and not left; written under mutex_
        loop* next = nullptr;       // in open_; guarded by mutex_
        std::atomic<int> index{0};  // the next task

        void work();
    };

public:
    /// body(state, 0) ... body(state, count - 1) on the caller and at most `helpers` others. Starts threads only if
    /// helpers > 0. `shared`: each helper needs a place there; null: none does. `helps_others`: with no task left the
    /// caller joins other loops that share the places, until this one ends.
    void run(int count, int helpers, body task, void* state, places* shared = nullptr, bool helps_others = false);

    /// A pool that starts no thread: others bring theirs.
    enum class threads : bool { own, of_others };
    explicit pool(threads whose = threads::own) : borrows_(whose == threads::of_others) {}

    /// The same on threads that `bring` brings: it calls what it is given once or more, one after another or at once,
    /// as an application's pool does its tasks. Loops that these tasks run on this pool share the threads. Returns
    /// whether all is done.
    template <class Bring>
    bool run_on_others(int count, int helpers, body task, void* state, places& shared, Bring bring) {
        loop offer{.task = task,
                   .state = state,
                   .count = count,
                   .share = 8 * helpers,
                   .cpu = -1,
                   .wanted = helpers,
                   .shared = &shared};
        open_ = &offer;
        bring([this, &offer] { help(offer); });
        const std::lock_guard lock(mutex_);
        return is_done(offer);
    }

    /// The process's pool; never destroyed, since calls may come from destructors of static objects.
    static pool& instance();

private:
    void start(int workers);
    void serve();
    void idle(std::unique_lock<std::mutex>& lock);
    int awake(int helpers);
    loop* joined(const places* within);
    void work(loop& on, std::unique_lock<std::mutex>& lock);
    void close(loop& done, bool helps_others);
    void help(loop& until);
    static bool is_done(const loop& it) { return it.busy == 0 && it.index.load() >= it.count; }

    std::mutex mutex_;
    std::condition_variable offered_, left_;
    loop* open_ = nullptr;             // loops that want helpers, oldest first
    std::atomic<unsigned> offers_{0};  // loops that ever wanted helpers; written under mutex_
    int looking_ = 0;                  // threads that look for a loop and count on none yet
    int expected_ = 0;                 // threads that look for a loop, and that one counts on
    int workers_ = 0;
    const bool borrows_;
};

}  // namespace attune::detail
#pragma GCC visibility pop
