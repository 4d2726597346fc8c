#pragma once
#include "stages/kernel_frame.hpp"

namespace attune::generators::inline stages {

/// Of decode on a GPU: where the splits of the keys begin and end.
///
/// A split is a stretch of the blocks between the first and the last of which some row of the key head sees something,
/// so that what a mask or a length leaves is shared out. Each task finds them for itself, a few threads going over all
/// blocks in turn.
class split_ranges {
public:
    /// `kinds`: (key block, query block, key head, batch), 0 where no row sees anything.
    split_ranges(const kernel_frame& frame, const Halide::Func& kinds);

    static constexpr int threads = 32;  ///< that look for the first and the last block
    const Halide::Expr splits;          ///< of the keys

    // What there is to schedule.
    Halide::Func span_of_thread{"span_of_thread"}, spans{"spans"};  ///< (thread, key head, batch): the first visible
                                                                    ///< block that it saw, and the one after the last
    Halide::Func span{"span"};    ///< (key head, batch): the first of all, and how many
    Halide::Func range{"range"};  ///< (split, key head, batch): its first block, and the one after it
    Halide::Func visits_of_split{"visits_of_split"};  ///< (key block, split, query block, key head, batch): `kinds`,
                                                      ///< and 0 of other splits' blocks
    Halide::RDom every;
    static inline const Halide::Var sp{"sp"}, l{"l"};  ///< split, thread
};

}  // namespace attune::generators::inline stages
