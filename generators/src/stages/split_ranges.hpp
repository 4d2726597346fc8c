#pragma once
#include "stages/kernel_frame.hpp"

namespace attune::generators::inline stages {

/// Decode on a GPU: where the splits of the keys begin and end.
///
/// Blocks from the first to the last in which some row of the key head sees a key are cut into splits, so that the
/// blocks that a mask or a length leaves are shared out. Each task finds them for itself; a few threads go over all
/// blocks in turn.
class split_ranges {
public:
    /// `kinds`: (key block, query block, key head, batch), 0 where no row sees anything.
    split_ranges(const kernel_frame& frame, const Halide::Func& kinds);

    static constexpr int threads = 32;  ///< threads that look for the first and the last block
    const Halide::Expr splits;          ///< of the keys

    // Functions and loops to schedule.
    Halide::Func span_of_thread{"span_of_thread"}, spans{"spans"};  ///< (thread, key head, batch): the first visible
                                                                    ///< block that it saw, and the one after the last
    Halide::Func span{"span"};    ///< (key head, batch): the first visible block of all, and their number
    Halide::Func range{"range"};  ///< (split, key head, batch): its first block, and the one after it
    Halide::Func visits_of_split{"visits_of_split"};  ///< (key block, split, query block, key head, batch): `kinds`,
                                                      ///< and 0 of other splits' blocks
    Halide::RDom every;
    static inline const Halide::Var sp{"sp"}, l{"l"};  ///< split, thread
};

}  // namespace attune::generators::inline stages
