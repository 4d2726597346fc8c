#pragma once
#include <cstdint>

namespace attune::detail {

/// The fewest blocks of a split of the keys in decode on a CPU, if there is work for all threads: a thread waits for
/// the first keys of each split.
inline constexpr std::int64_t fewest_blocks_of_split = 4;

}  // namespace attune::detail
