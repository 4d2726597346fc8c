#pragma once
#include "kernel/level.hpp"

#include <attune/runtime/cpu.hpp>

#include <cstdlib>
#include <vector>

namespace attune::testing {

/// The levels that a test of every level looks at: the most demanding one that runs here, and the most demanding that
/// has no dot products of bf16, which has f32. `./tests/run full:levels` hides them in turn. All that run here where
/// ATTUNE_EVERY_LEVEL is set.
inline std::vector<generators::level> tested_levels() {
    std::vector<generators::level> all;
    bool dots = false, others = false;
    for (const generators::level& each : generators::levels()) {
        if (each.is_gpu || !runs(each.name)) continue;
        bool& seen = each.is_for_bf16() ? dots : others;
        if (!seen || std::getenv("ATTUNE_EVERY_LEVEL") != nullptr) all.push_back(each);
        seen = true;
    }
    return all;
}

}  // namespace attune::testing
