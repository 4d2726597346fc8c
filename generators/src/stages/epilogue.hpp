#pragma once
#include "stages/kept_number.hpp"
#include "stages/kernel_frame.hpp"
#include "stages/softmax_state.hpp"

#include <map>
#include <vector>

namespace attune::generators::inline stages {

/// Rows and outputs: arithmetic on the results of the pass over the keys, once for each query. One function writes them
/// all, so that one loop over tasks makes them. A kernel without an attention core consists of this alone.
class epilogue {
public:
    /// `states`: one for each of the plan's cores; none if nothing is summed over the keys.
    epilogue(const kernel_frame& frame, std::vector<const row_state*> states);

    /// Outputs and rows in the graph's order, then the saved rows and the saved output: (value depth, query, head,
    /// batch); rows repeat along the value depth.
    Halide::Func outputs{"outputs"};
    bool empty() const { return !outputs.defined(); }
    std::vector<kind> made;  ///< one for each of them

    /// The output that marks rows to be made again: its first channel is NaN in such a row.
    int marked() const;

    /// Saved rows: the maximum of `real`, and the inverse of the sum, at a query of the call.
    Halide::Expr maximum(const Halide::Expr& query) const { return saved_row(2, query); }
    Halide::Expr inverse(const Halide::Expr& query) const { return saved_row(1, query); }

    /// The saved output, as a tensor that others read.
    Halide::Func saved_output() const;

    // Functions to schedule.
    const int block;                                           ///< queries that a task finishes
    std::map<std::pair<int, int>, Halide::Func> denominators;  ///< (query in block, query block, head, batch), by core
                                                               ///< and sink: the inverse and the logarithm of the sum
                                                               ///< of weights
    std::vector<Halide::Func> rows;                            ///< (query in block, query block, head, batch)
    std::vector<Halide::Func> of_rows() const;                 ///< both
    std::map<int, Halide::Func> normal;  ///< (query, value depth, head, batch), by core: weighted sums, normalised

private:
    void mark(std::vector<Halide::Expr>& values) const;
    Halide::Expr saved_row(int from_last, const Halide::Expr& query) const;
    std::map<int, quantity> primitives();
    quantity logarithm(int core, int sink) const;
    const Halide::Func& denominator(int core, int sink);
    int core_of(int node) const;
    void hoist(int node);
    Halide::Expr written_row(int node);
    Halide::Expr written_output(int node, const Halide::Type& type);

    const kernel_frame& f_;
    const std::vector<const plan*> cores_;
    const std::vector<const row_state*> states_;
    Halide::Expr query_of_row() const { return f_.qt * block + f_.qi; }
    const std::vector<Halide::Var> row_;                ///< query in block, query block, head, batch
    const std::vector<Halide::Expr> at_row_, in_loop_;  ///< as expressions; and as the outputs' loop has them
    std::map<int, quantity> primitives_;
    std::map<int, kept_number> hoisted_;
};

}  // namespace attune::generators::inline stages
