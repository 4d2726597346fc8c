#pragma once
#include "program.hpp"

namespace ptx {

/// Writes into each branch where its ways meet: its block's immediate post-dominator, the first instruction that is on
/// all ways from the branch to the end.
void find_meetings(program& of);

}  // namespace ptx
