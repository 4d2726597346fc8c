#pragma once
#include "program.hpp"

#include <map>
#include <vector>

namespace ptx {

/// Lanes that run together to where `meet` is, and there wait for those that went another way.
struct path {
    u32 mask = 0;
    int pc = 0, meet = -1;
};

/// Where a warp is. Its lanes run one instruction at a time. Where a branch divides them, one part runs to where the
/// ways meet (the branch's immediate post-dominator), then the other; from there they run together again.
struct warp_flow {
    path now;
    std::vector<path> waiting;  ///< the last one's turn is next
    u32 alive = 0;
    bool done = false, at_barrier = false;
    bool meets = false;  ///< it waits at a barrier with a number, whose others have not all come
};

struct warp;
/// A barrier with a number, where some of a block's warps meet: those that wait for the others, and those that do not.
struct meeting {
    unsigned arrived = 0, expected = 0;  ///< threads
    std::vector<warp*> waiting{};
};

/// cp.async of one lane. Nothing arrives before it is waited for.
struct copy_on_its_way {
    u64 to, from;
    u32 bytes, zeros;  ///< the last ones come from nowhere
    int lane;
};
struct copies_on_their_way {
    std::vector<copy_on_its_way> open;
    std::vector<std::vector<copy_on_its_way>> groups;  ///< committed, the oldest first
};

/// Sums of wgmma that have not been waited for.
struct sums_on_their_way {
    std::vector<int> slots;
    std::vector<u32> values;
};

struct warp {
    int index = 0;  ///< in its block
    std::vector<u32> words;
    std::vector<u64> longs;
    std::vector<u32> predicates;  ///< a bit a lane
    warp_flow flow;
    copies_on_their_way copies;
    std::map<int, sums_on_their_way> sums;  ///< by the first slot
};

}  // namespace ptx
