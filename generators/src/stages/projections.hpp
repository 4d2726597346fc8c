#pragma once
#include "stages/kernel_frame.hpp"

#include <attune/ir/projections.hpp>

#include <deque>
#include <functional>
#include <vector>

namespace attune::generators::inline stages {

/// A tensor that a kernel computes in full before anything reads it: tokens, or the result of a matrix product of
/// queries, keys or values.
///
/// A sum over products of a factor of the position and a factor of the channel is a matrix product, such as a linear
/// projection. The first factor is copied a block of positions at a time, the second once a call in panels of channels,
/// and both meet in registers. Other sums are taken once a position.
class computed_tensor {
public:
    computed_tensor(const kernel_frame& frame, int node);

    /// (channel, position, batch) of tokens, (channel, position, head, batch) otherwise.
    Halide::Func result;

    // Functions and loops to schedule. Functions of a head have it as their last axis.
    const bool tokens;
    const int rows, columns;  ///< positions and channels of a tile
    struct product {
        Halide::Func left;   ///< (summed index, position, batch)
        Halide::Func right;  ///< (channel in panel, summed index, panel)
        Halide::Func sums;   ///< (channel in panel, position in tile, panel, tile, batch)
        Halide::RDom each;
        Halide::Expr dense;  ///< whether the rows that `left` reads are without gaps
        bool left_of_head{}, right_of_head{};
        int node{};
        bool is_kept{};  ///< `sums` are kept for a task, since other channels are read, too
    };
    /// A sum over the channels of a product's result.
    struct sum_of_channels {
        Halide::Func sum;  ///< among `of_positions`
        Halide::RDom each;
    };
    std::vector<product> products;
    std::vector<Halide::Func> of_positions;  ///< (position, batch): other sums
    std::vector<sum_of_channels> of_products;
    std::vector<Halide::Parameter> read_along;  ///< inputs that are read at the position and channel of the result
    Halide::Expr dense;                         ///< whether the rows that the result reads are without gaps
    Halide::Expr block() const;                 ///< positions a task
    static inline const Halide::Var position{"position"}, summed{"summed"}, in_panel{"in_panel"}, panel{"panel"},
        in_tile{"in_tile"}, tile{"tile"};

private:
    quantity as_product(const matrix_product& of);
    quantity as_number(int sum, const place& here);
    std::vector<int> reads_of(const product& of, int sum) const;
    Halide::Expr element_of(const product& of, const Halide::Expr& channel) const;
    place at(const Halide::Expr& row, const Halide::Expr& channel) const;
    Halide::Expr reads_dense(int formula, int axes, const std::function<bool(int)>& ends) const;
    bool reads_along(int n) const;
    bool is_made_before(int n) const;
    Halide::Expr position_read(const Halide::Expr& at) const;

    const kernel_frame& f_;
    const instruction& node_;
    const bool of_keys_;
    Halide::Expr width_;
};

/// Computes `nodes` of a graph in full, arguments before users, and makes all reads go to the results.
struct computed_tensors {
    computed_tensors() = default;
    computed_tensors(kernel_frame& frame, const std::vector<int>& nodes);
    std::deque<computed_tensor> all;
};

}  // namespace attune::generators::inline stages
