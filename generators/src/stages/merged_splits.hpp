#pragma once
#include "stages/softmax_state.hpp"

#include <vector>

namespace attune::generators::inline stages {

/// Decode on a GPU: a row's splits, merged by maximum and sum, always in the same order. Bits depend on the number of
/// splits and on nothing else.
class merged_splits {
public:
    /// The numbers that each split leaves of each row.
    struct left_numbers {
        Halide::Func of_splits;  ///< (number, row, split, query block, key head, batch)
        int count{};             ///< numbers of a row
        int maximum_at{-1};      ///< the place of the maximum; -1: rows have none
        Halide::Expr splits;
    };
    merged_splits(const kernel_frame& frame, left_numbers left, const Halide::Expr& scale);

    /// A number of a row at (in block, query block, head, batch), added up over all splits.
    Halide::Expr sum_of(const Halide::Expr& number, const std::vector<Halide::Expr>& row) const;

    static constexpr int warp = 32;
    static constexpr int mergers = 8;         ///< threads that share the splits of an element
    static constexpr int merged_at_once = 8;  ///< splits that each of them asks for at a time

    // Functions and loops to schedule.
    const left_numbers left;
    const int most;                 ///< splits
    Halide::Func tops{"tops"};      ///< (thread, query in block, query block, head, batch): maxima of a few splits
    Halide::Func top{"top"};        ///< (query in block, query block, head, batch): the maximum of all
    Halide::Func factor{"factor"};  ///< (split, query in block, query block, head, batch)
    Halide::Func merging{"merging"}, merged{"merged"};  ///< (number, thread, query in block, query block, head, batch)
    Halide::RDom some_splits;
    static inline const Halide::Var sp{"sp"}, l{"l"}, x{"x"}, g{"g"};  ///< split, thread, number, thread that merges

private:
    Halide::Expr of_split(const Halide::Expr& number, const Halide::Expr& split,
                          const std::vector<Halide::Expr>& row) const;

    const kernel_frame& f_;
};

}  // namespace attune::generators::inline stages
