#pragma once
#include "stages/kernel_frame.hpp"

#include <deque>
#include <vector>

namespace attune::generators {

/// Numbers of blocks and which of them are the largest: tensors of bound indices, made once a call, before the first
/// score, by query head, or by key head where no element needs its query head.
class precomputed_tensor {
public:
    precomputed_tensor(const kernel_frame& frame, int node);

    std::vector<Halide::Var> axes;  ///< of the result, innermost first: the last index to the first, head, batch
    Halide::Func result{"precomputed"};
    bool may_be_masked{};  ///< whether an element may be -infinity
    int row_of{-1};        ///< the one choice that reads it, a row at a time; -1 if others do

    // What there is to schedule of reals.
    Halide::RDom along;  ///< the last index
    /// A sum whose index is the last one of all that it reads: taken a vector at a time.
    struct dot {
        Halide::Var lane;
        Halide::RDom steps, lanes;
        Halide::Func partial;  ///< (lane, axes)
        Halide::Func sum;      ///< (axes)
    };
    std::vector<dot> dots;
    const int width;  ///< lanes of a dot

    // And of a choice, by rows. A row is (axes) without the first one.
    struct digit {
        Halide::Func amounts;  ///< (digit, row): how many, or what sum, at or above the threshold with that digit
        Halide::RDom every;
        Halide::Func threshold;  ///< (row): the digits down to this one of the smallest element that is chosen
    };
    Halide::Func ordered{"ordered"};  ///< (axes): elements as integers of the same order; 0 is never chosen
    Halide::Var choice{"digit"};      ///< 0 to 15
    std::vector<digit> digits;
    Halide::Func total{"total"};  ///< (row): the sum, where a share of it is wanted
    Halide::Func above{"above"};  ///< (row): how many, or what sum, above the threshold
    Halide::Func ties{"ties"};    ///< (axes): the same of those equal to it that come before
    bool chooses() const { return !digits.empty(); }

private:
    void define_reals(int node);
    void define_choice(int node);
    Halide::Func sum_of_vectors(int sum, const place& here);
    bool is_read_along(int sum) const;
    Halide::Expr number(int node) const;

    const kernel_frame& f_;
};

/// All of a graph, arguments before users, into functions that all reading goes to.
struct precomputed_tensors {
    explicit precomputed_tensors(kernel_frame& frame);
    std::deque<precomputed_tensor> all;
    std::vector<int> nodes;
};

}  // namespace attune::generators
