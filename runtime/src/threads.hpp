#pragma once

namespace attune::detail {

/// Threads of a call whose options ask for `asked`; 0 asks for the default. Throws attune::error if it is negative.
int threads_of(int asked);

}  // namespace attune::detail
