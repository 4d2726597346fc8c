#pragma once
#include "stages/kernel_frame.hpp"
#include "stages/softmax_state.hpp"

#include <map>

namespace attune::generators {

/// Rows and outputs: arithmetic on what the pass over the keys left, once for each query. One function writes them all,
/// so that one loop over tasks makes them. A kernel without an attention core consists of this alone.
class epilogue {
public:
    /// `state` may be null.
    epilogue(const kernel_frame& frame, row_state* state);

    /// Outputs and rows in the graph's order, then the saved rows and the saved output: (value depth, query, head,
    /// batch); rows repeat along the value depth.
    Halide::Func outputs{"outputs"};
    bool empty() const { return !outputs.defined(); }

    /// Saved rows: the maximum of `real`, and the inverse of the sum, at a query of the call.
    Halide::Expr maximum(const Halide::Expr& query) const { return saved_row(2, query); }
    Halide::Expr inverse(const Halide::Expr& query) const { return saved_row(1, query); }

    /// The saved output, as a tensor that others read.
    Halide::Func saved_output() const;

    void schedule();
    void add_passes(Halide::Pipeline& pipeline) const;

private:
    friend class gpu_prefill_schedule;
    struct hoisted_row {
        Halide::Func row;
        bool condition{}, may_hide{};
    };

    Halide::Expr saved_row(int from_last, const Halide::Expr& query) const;
    std::map<int, quantity> primitives();
    quantity logarithm(int sink) const;
    const Halide::Func& denominator(int sink);
    quantity read(const hoisted_row& kept) const;
    void hoist(int node);
    Halide::Expr written_row(int node);
    Halide::Expr written_output(int node, const Halide::Type& type);

    const kernel_frame& f_;
    row_state* state_;
    const int block_;  ///< queries that a task finishes
    Halide::Expr query_of_row() const { return f_.qt * block_ + f_.qi; }
    const Halide::Var task_{"task"};
    const std::vector<Halide::Var> row_;                ///< query in block, query block, head, batch
    const std::vector<Halide::Expr> at_row_, in_loop_;  ///< the same, and as the loop over the outputs has it
    std::map<int, Halide::Func> denominators_;          ///< by sink: (inverse, logarithm) of the sum of weights
    std::map<int, quantity> primitives_;
    std::map<int, hoisted_row> hoisted_;
    std::vector<Halide::Func> rows_;
    Halide::Func normal_{"normal"};
    std::vector<kind> made_;
};

}  // namespace attune::generators
