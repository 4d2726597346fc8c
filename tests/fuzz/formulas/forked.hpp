#pragma once
#include "formula_case.hpp"

namespace fuzz {

/// outcome_of in a process of its own, which may crash, or take longer than so many seconds.
outcome outcome_of_fork(const formula_case& it, int limit_seconds, bool mistaken);

}  // namespace fuzz
