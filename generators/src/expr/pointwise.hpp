#pragma once
#include "expr/kernel_inputs.hpp"

#include <map>

namespace attune::generators::inline expr {

/// Whether a node is a number as the caller passes it, a scalar or an element of an input.
constexpr bool is_passed(const instruction& node) { return node.op == operation::scalar || node.op == operation::load; }

/// A value as kernels carry it. Reals never hold -infinity: `masked` says whether one would stand there (undefined:
/// never); `value` then is any finite number.
struct quantity {
    Halide::Expr value;
    Halide::Expr masked;
    /// In a gradient: whether the value is 0 because a pair is masked (undefined: never). A product with it is 0,
    /// whatever the other factor is.
    Halide::Expr nothing{};
};
/// A sum of a gradient that was made before: `nothing` is whether it is 0.
quantity made_of_pairs(const Halide::Expr& sum);

/// The place at which a node is evaluated.
struct place {
    Halide::Expr b, h, q, k;
    Halide::Expr key_limit;           ///< keys at or beyond it are not read
    std::map<int, quantity> known{};  ///< nodes that are already computed here: the contraction, rows, hoisted numbers
    Halide::Expr d{};                 ///< channel, inside the depth
    std::map<int, Halide::Expr> indices{};  ///< of sums around this place, by position in graph_ir::indices
    std::map<int, int> extents{};           ///< for precomputed tensors: the extents, nodes, of these indices
    std::map<int, Halide::Expr> rows{};     ///< loads along d_idx: the element at which the row begins, if known
};

/// Nodes of a graph as Halide expressions at one place. Integers are i32, reals, rows and outputs f32, conditions
/// Boolean. Sums are inline reductions.
class pointwise {
public:
    pointwise(const kernel_request& request, const kernel_inputs& inputs, place at)
        : pointwise(request, inputs, request.facts->depends, std::move(at)) {}
    /// With other dependences: nodes that `depends` calls uniform count as one number.
    pointwise(const kernel_request& request, const kernel_inputs& inputs, const std::vector<dependence>& depends,
              place at)
        : request_(request), inputs_(inputs), depends_(depends), at_(std::move(at)) {}

    quantity operator()(int node) { return evaluate(node, false); }
    Halide::Expr condition(int node) { return evaluate(node, false).value; }
    /// The last eight bits of an integer, a u8. Operations that need only the last bits are done in bytes, so that a
    /// vector holds four times as many.
    Halide::Expr byte_of(int node);
    /// The place that a load of an input reads, innermost axis first; inside the tensor.
    std::vector<Halide::Expr> place_of(int load);
    /// Whether all that a number reads to be computed lies inside of the tensors that it reads, and so does the element
    /// itself if the number is one. Only indices that nobody could check before the call are outside.
    Halide::Expr is_inside(int number);
    /// The element of the tensor at which the row of a load along d_idx begins.
    Halide::Expr row_of(int load);

private:
    quantity evaluate(int node, bool as_index);
    bool is_at_most_zero(int number) const;
    quantity compute(const instruction& node, bool as_index);
    Halide::Expr condition_of_bytes(int condition);
    quantity load(const instruction& node);
    quantity load_computed(const instruction& node);
    quantity element_of_bits(const instruction& node, const Halide::Expr& bits);
    quantity load_precomputed(const instruction& node);
    /// Whether an index is a bound one that runs over this extent.
    bool runs_over(const instruction& index, int extent) const;
    bool is_along(const instruction& index, int extent) const;
    bool runs_over_channels(const instruction& index, axis_kind along) const;
    bool goes_along(const instruction& index, axis_kind along) const;
    bool is_precomputing() const { return !at_.extents.empty(); }
    quantity reduce(const instruction& node, bool as_index);
    /// An integer as a real without a conversion; undefined if that takes no fewer instructions.
    Halide::Expr real_of_packed(const instruction& conversion);
    int number_of(const instruction& node) const { return static_cast<int>(&node - request_.graph().nodes.data()); }
    bool makes_infinity(const instruction& node) const;
    bool wraps(const instruction& node, bool as_index) const;
    quantity arithmetic(const instruction& node, const quantity& a, const quantity& b, bool as_index);
    void guard(const instruction& node, quantity& a, quantity& b) const;
    quantity divide(const instruction& node, const quantity& a, const quantity& b);
    bool keeps_nothing() const { return request_.facts->gradient.has_value(); }
    quantity terminal(const instruction& node, bool as_index);
    quantity extent_of(const instruction& node);
    quantity keep(const instruction& node);

    const kernel_request& request_;
    const kernel_inputs& inputs_;
    const std::vector<dependence>& depends_;
    place at_;
    std::map<std::pair<int, bool>, quantity> done_;
    std::map<int, Halide::Expr> inside_;
};

}  // namespace attune::generators::inline expr
