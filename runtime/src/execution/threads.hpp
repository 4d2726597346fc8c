#pragma once

#include <attune/runtime/options.hpp>

namespace attune::detail {

/// Threads of a call whose options ask for `asked`; 0 asks for the default. Throws attune::error if it is negative.
int threads_of(int asked);

/// Whether the options or ATTUNE_DETERMINISTIC ask for bits that depend on neither batch nor threads. Throws
/// attune::error where the variable is neither 0 nor 1.
bool is_deterministic(const options& how);

/// The CPU that this thread runs on; -1 where the system does not say.
int current_cpu();

/// Moves this thread to another of the CPUs that it may use, if there is one; which it may use stays as it is. Linux
/// may wake a thread on the CPU of the one that wakes it, and leave both there for tens of milliseconds while other
/// CPUs idle.
void leave_cpu(int cpu);

}  // namespace attune::detail
