#pragma once
#include <cstdint>
#include <vector>

namespace attune::reference {

/// Where the loop over a recurrence's tokens is: the state before a token and after it, (depth, value depth).
struct running_state {
    std::int64_t b = -1, head = -1, token = -1;
    std::vector<double> before, after;
};

}  // namespace attune::reference
