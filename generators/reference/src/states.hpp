#pragma once
#include <attune/ir/recurrence.hpp>

#include <cstdint>
#include <map>
#include <vector>

namespace attune::reference {

/// The place of the loop over a recurrence's tokens: the state before a token and after it, (depth, value depth).
struct running_state {
    std::int64_t b = -1, head = -1, token = -1;
    std::vector<double> before, after;
};

/// The cotangents of the parts of a step, of the reads of one head: a row for each token, of an initial state
/// (depth, value depth); and of the row that reads.
struct part_cotangents {
    std::int64_t b = -1, h = -1;
    std::map<step_part, std::vector<std::vector<double>>> of;
};

}  // namespace attune::reference
