#pragma once
#include <cstdint>

#pragma GCC visibility push(hidden)
/// On how many threads a call of decode or of a recurrence runs.
namespace attune::detail {

/// The threads, `threads` at most, for so many multiply-adds and elements read, if the others sleep. Waking a thread
/// takes longer than a short call.
int threads_worth(std::int64_t work, int threads);

/// The same for a call that begins now and ends with this object. If it follows another short call at once, it is
/// shared sooner: attune's threads are still awake (pool.hpp), or are woken for those that follow.
class call_threads {
public:
    /// `are_attunes`: the threads; not an application's, of which nothing is known.
    call_threads(std::int64_t work, int threads, bool are_attunes);
    ~call_threads();
    call_threads(const call_threads&) = delete;
    int count() const { return count_; }

private:
    int count_;
    bool depends_;  ///< on the call before
};

}  // namespace attune::detail
#pragma GCC visibility pop
