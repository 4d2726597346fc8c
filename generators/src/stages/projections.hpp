#pragma once
#include "stages/kernel_frame.hpp"

#include <attune/ir/projections.hpp>

#include <deque>
#include <functional>
#include <vector>

namespace attune::generators {

/// A tensor that a kernel computes in full before anything reads it: tokens, or what queries, keys or values form by a
/// matrix product.
///
/// Sums over products of what depends on the position and what depends on the channel are matrix products, such as a
/// linear projection: the one factor is copied a block of positions at a time, the other once a call in panels of
/// channels, and both meet in registers. Other sums are taken once a position.
class computed_tensor {
public:
    computed_tensor(const kernel_frame& frame, int node);

    /// (channel, position, batch) of tokens, (channel, position, head, batch) otherwise.
    Halide::Func result;
    void schedule();

private:
    friend class gpu_prefill_schedule;
    struct product {
        Halide::Func left, right, sums;
        Halide::RDom each;
        Halide::Expr dense;
        bool left_of_head{}, right_of_head{};
    };

    quantity as_product(const matrix_product& of);
    place at(const Halide::Expr& position, const Halide::Expr& channel) const;
    Halide::Expr reads_dense(int formula, int axes, const std::function<bool(int)>& ends) const;
    Halide::Expr block() const;
    bool reads_along(int n) const;
    bool is_made_before(int n) const;
    Halide::Expr position_read(const Halide::Expr& position) const;

    const kernel_frame& f_;
    const instruction& node_;
    const bool tokens_, of_keys_;
    const int rows_, columns_;
    Halide::Expr width_, dense_;
    Halide::Var p_{"p"}, n_{"n"}, ci_{"ci"}, co_{"co"}, pi_{"pi"}, po_{"po"};
    std::vector<product> products_;
    std::vector<Halide::Parameter> read_along_;
    std::vector<Halide::Func> of_positions_;
};

/// The nodes of a graph that are computed in full, arguments before users, into functions that all reading goes to.
class computed_tensors {
public:
    /// Those that are needed `before` the attention, or those that read what it made.
    computed_tensors(kernel_frame& frame, bool before);
    void schedule() {
        for (computed_tensor& each : all_) each.schedule();
    }

private:
    friend class gpu_prefill_schedule;
    std::deque<computed_tensor> all_;
};

}  // namespace attune::generators
