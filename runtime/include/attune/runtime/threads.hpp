#pragma once
#include <functional>

/// Threads of a call: options::threads, else set_threads, else the environment's ATTUNE_THREADS, else as many as the
/// CPUs that the process may use when first asked: its affinity, and the CPU quota of its control groups (a container's
/// `cpu.max`), rounded down. All calls share one pool; the calling thread works too, and a call of one thread starts
/// none. Calls may be made from several threads at once and from within a task.
///
/// After fork() the child starts with a pool of its own. A fork while another thread is inside a call is safe as well;
/// that call goes on in the parent only. The pool's threads block all signals and end with the process, so a shared
/// library that contains attune must not be unloaded.
namespace attune {

/// The threads of all later calls that do not state their own; 0 returns to the default. Throws attune::error if
/// negative.
void set_threads(int count);

/// The number of threads of a call without options::threads. Throws attune::error if ATTUNE_THREADS is not a positive
/// number.
int threads();

/// Runs task(0) ... task(count - 1), each once, on at most `threads` threads at a time, and returns when all are done.
using parallel_for = std::function<void(int count, int threads, const std::function<void(int)>& task)>;

/// Uses the application's own pool instead of attune's; an empty function returns to attune's. An exception that it
/// throws ends the call with attune::error. The function is kept until the program ends.
void set_parallel_for(parallel_for function);

}  // namespace attune
