#pragma once
#include "analysis/plan.hpp"

#include "kernel/kernel_request.hpp"

#include <Halide.h>

#include <map>
#include <set>
#include <vector>

namespace attune::generators::inline expr {

/// A kernel's inputs in the order of the call: the graph's inputs, then kv_lengths (batch). They have Halide's
/// dimensions, innermost first, so axes appear reversed.
class kernel_inputs {
public:
    explicit kernel_inputs(const kernel_request& request);

    /// The tensor at a position in graph_ir::inputs.
    const Halide::ImageParam& tensor(int input) const { return tensors_[input]; }
    /// Whether a tensor's elements are narrower floats than those in which kernels compute.
    bool is_converted(int input) const {
        return tensors_[input].type().is_float() && tensors_[input].type().bits() < 32;
    }
    /// The run-time number at a position in graph_ir::inputs.
    Halide::Expr scalar(int input) const { return scalars_[input]; }

    /// Lengths of the first input that has the axis, inputs of any element type first. A length that a computed tensor
    /// states takes precedence.
    Halide::Expr batches, heads, key_heads, query_length, key_length;
    Halide::Expr key_splits;  ///< splits of the keys, in decode
    /// In decode, a u32 that is 0, since no call has negative splits. The compiler cannot know.
    Halide::Expr unknown_zero;

    /// Tensors that the kernel computes in full before they are read, by node: tokens (channel, position, batch),
    /// outputs and computed tensors (channel, position, head, batch).
    std::map<int, Halide::Func> computed;
    std::set<int> never_masked;  ///< precomputed tensors that have no -infinity of their own

    /// Keys in use of a batch element: kv_lengths(b), never negative, never beyond key_length.
    Halide::Expr keys_in_use(const Halide::Expr& b) const;

    /// The key head that a query head reads.
    Halide::Expr key_head(const Halide::Expr& h) const;

    /// The largest keys_in_use of all batch elements.
    Halide::Func most_keys_in_use;

    std::vector<Halide::Argument> arguments() const;

private:
    Halide::Expr extent_along(const graph_ir& graph, axis_kind axis) const;
    void read_numbers(const kernel_request& request);

    std::vector<Halide::ImageParam> tensors_;  ///< undefined if the input is a number
    std::vector<Halide::Expr> scalars_;        ///< undefined if it is a tensor
    Halide::ImageParam kv_lengths_;
    std::vector<Halide::Argument> arguments_;
};

/// Halide's type of an element; booleans are bytes.
Halide::Type halide_type(element_type e);

}  // namespace attune::generators::inline expr
