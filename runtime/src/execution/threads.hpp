#pragma once

#include <attune/runtime/detail/kernel_table.hpp>
#include <attune/runtime/options.hpp>

#pragma GCC visibility push(hidden)
namespace attune::detail {

/// The application's team in which this thread is worker 0; of nobody: it is in none.
struct led_team {
    const parallel_for* pool{};
    int workers{};
};
const led_team& team_of_this_thread();
class leading {
public:
    explicit leading(led_team team);
    ~leading();
    leading(const leading&) = delete;

private:
    led_team before_;
};

/// The number of threads of a call whose options ask for `asked`; 0 asks for the default. Throws attune::error if it is
/// negative.
int threads_of(int asked);

/// Whether the options or ATTUNE_DETERMINISTIC ask for bits that depend on neither batch nor threads. Throws
/// attune::error if the variable is neither 0 nor 1.
bool is_deterministic(const options& how);

/// Whether the options or ATTUNE_CHECKED ask for a look at every index that is read from a tensor. Throws as above.
bool is_checked(const options& how);

/// Whether loops run on attune's own threads, not on an application's, of a call or of all (attune::set_parallel_for).
bool has_own_threads(const task_options& how);

/// The CPU that this thread runs on; -1 if unknown.
int current_cpu();

/// Moves this thread to another of the CPUs that it may use, if there is one, without changing its affinity. Linux may
/// wake a thread on the CPU of the thread that wakes it, and leave both there for tens of milliseconds while other CPUs
/// idle.
void leave_cpu(int cpu);

}  // namespace attune::detail
#pragma GCC visibility pop
