#pragma once
#include "stages/kernel_frame.hpp"

namespace attune::generators::inline stages {

/// The keys that some query of a key head sees, one after the other (analysis/listed_keys.hpp).
struct key_list {
    key_list(const kernel_frame& frame, int node);

    Halide::Func seen{"seen"};      ///< (key, key head, batch): whether a query of the key head sees it
    Halide::Func listed{"listed"};  ///< (place, key head, batch): the keys; the last element is their number
    Halide::RDom each_key;
    static inline const Halide::Var k{"k"}, h{"h"}, b{"b"};
};

}  // namespace attune::generators::inline stages
