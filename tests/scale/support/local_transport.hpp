#pragma once
#include <attune/mpi/transport.hpp>

#include <cstddef>
#include <functional>
#include <memory>

namespace attune::mpi {

/// How messages between threads travel, for tests.
struct local_script {
    /// Seconds until message `index` of rank `from`, counted from 0, is with `to`; without it, none. Called by one
    /// thread at a time. Messages with different tags or ranks overtake each other so.
    std::function<double(int from, int to, std::size_t bytes, int index)> delay{};
    /// This rank ends at its message of that index, sent or for an agreement, as if it were killed.
    int dies = any_rank, dies_at = 0;
    /// A longer message is over for its sender only when it is received.
    std::size_t eager = 4096;
    /// The clock stands still while a rank works, and where all wait, it goes to what comes next: deadlines pass at
    /// once, and alike in each run. Otherwise it is the system's.
    bool clock_jumps = true;
};

/// Runs `work` on so many threads, each with its rank's transport, and returns when all have ended. An exception of the
/// lowest rank that throws one is thrown on; the thread of a rank that dies ends where it is.
void run_local(int ranks, const local_script& script, const std::function<void(std::unique_ptr<transport>)>& work);

}  // namespace attune::mpi
