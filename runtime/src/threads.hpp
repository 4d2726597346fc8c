#pragma once

#include <attune/runtime/options.hpp>

namespace attune::detail {

/// Threads of a call whose options ask for `asked`; 0 asks for the default. Throws attune::error if it is negative.
int threads_of(int asked);

/// Whether the options or ATTUNE_DETERMINISTIC ask for bits that depend on neither batch nor threads. Throws attune::error where the variable is neither 0 nor 1.
bool is_deterministic(const options& how);

}  // namespace attune::detail
