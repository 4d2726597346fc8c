#pragma once
#include <attune/dsl/attention.hpp>
#include <attune/ir/builder.hpp>

#include <array>
#include <cstddef>

/// Gradients: a graph made of a graph, by reverse mode over its list (ir/differentiate.hpp).
///
///     inline constexpr auto alibi = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
///     inline constexpr auto alibi_gradient = gradient(alibi);                  // dq, dk, dv, dslopes
///     inline constexpr auto some_of_it = gradient(alibi, of(out, lse), wrt(q, slopes));
namespace attune::dsl {

/// Names of outputs that have a cotangent.
template <std::size_t Count> struct outputs_with_cotangent {
    std::array<std::string_view, Count> names;
};
template <name... Label> constexpr outputs_with_cotangent<sizeof...(Label)> of(const output_name<Label>&...) {
    return {{output_name<Label>::label...}};
}

/// Names of tensors whose gradients are made.
template <std::size_t Count> struct tensors_with_gradient {
    std::array<std::string_view, Count> names;
};
template <class... Tensor>
    requires(requires { Tensor::declaration; } && ...)
constexpr tensors_with_gradient<sizeof...(Tensor)> wrt(const Tensor&...) {
    return {{Tensor::label...}};
}

/// `gradient(graph)`. A gradient that is not named is not made.
template <class Graph, std::size_t Of, std::size_t Wrt> struct gradient_of {
    Graph graph;
    std::array<std::string_view, Of> of;
    std::array<std::string_view, Wrt> wrt;
};

template <class T> inline constexpr bool is_gradient = false;
template <class Graph, std::size_t Of, std::size_t Wrt>
inline constexpr bool is_gradient<gradient_of<Graph, Of, Wrt>> = true;

/// The gradients of a graph's tensors, of the loss whose derivatives by the graph's outputs the call passes. Without
/// `of`, every output proper has such a cotangent; without `wrt`, q, k, v and every tensor of reals that something
/// flows to has a gradient.
template <class Graph> constexpr gradient_of<Graph, 0, 0> gradient(const Graph& graph) { return {graph, {}, {}}; }
template <class Graph, std::size_t Of>
constexpr gradient_of<Graph, Of, 0> gradient(const Graph& graph, const outputs_with_cotangent<Of>& of) {
    return {graph, of.names, {}};
}
template <class Graph, std::size_t Wrt>
constexpr gradient_of<Graph, 0, Wrt> gradient(const Graph& graph, const tensors_with_gradient<Wrt>& wrt) {
    return {graph, {}, wrt.names};
}
template <class Graph, std::size_t Of, std::size_t Wrt>
constexpr gradient_of<Graph, Of, Wrt> gradient(const Graph& graph, const outputs_with_cotangent<Of>& of,
                                               const tensors_with_gradient<Wrt>& wrt) {
    return {graph, of.names, wrt.names};
}

namespace detail {

// Echoed with what is missing.
template <gradient_fault Why, name Found> inline constexpr bool possible = Why == gradient_fault::none;

/// One sentence for each reason.
template <gradient_fault Why, name Found> constexpr bool has_a_gradient() {
    using enum gradient_fault;
    static_assert(Why != no_log_sum_exp || possible<Why, Found>,
                  "attune: the gradient of a softmax needs its log_sum_exp, of the same scores and sink, among the "
                  "outputs: outputs(out = softmax(scores) * v, lse = log_sum_exp(scores))");
    static_assert(Why != value_not_named || possible<Why, Found>,
                  "attune: the gradient needs a sum of weights that no output has by itself, or what a row reads from "
                  "states; name it: outputs(out = attended * gate, output<\"attended\"> = attended, ...)");
    static_assert(Why != not_an_output || possible<Why, Found>,
                  "attune: of(...) names something that is no output of this graph");
    static_assert(
        Why != not_a_row_or_output || possible<Why, Found>,
        "attune: attune makes gradients of outputs, rows, and outputs with their heads merged, projected by "
        "linear or not; of scores, weights, columns, head means, what is precomputed and other tokens not yet");
    static_assert(Why != not_a_real_tensor || possible<Why, Found>,
                  "attune: wrt(...) names something that is no tensor of reals of this graph");
    static_assert(Why != nothing_depends || possible<Why, Found>,
                  "attune: no gradient flows to a tensor that wrt(...) names");
    static_assert(Why != no_output || possible<Why, Found>,
                  "attune: the graph has no output proper; of(...) says which rows have a cotangent: gradient(graph, "
                  "of(lse))");
    static_assert(Why != no_derivative || possible<Why, Found>,
                  "attune: attune makes no gradient of this operation yet");
    static_assert(Why != of_a_gradient || possible<Why, Found>, "attune: attune makes no gradient of a gradient yet");
    static_assert(
        Why != of_a_shard || possible<Why, Found>,
        "attune: attune makes no gradient of a shard; make the shard of the gradient: shard(gradient(graph))");
    static_assert(Why != of_several_cores || possible<Why, Found>,
                  "attune: attune makes no gradient of several softmaxes in one graph yet; make a graph of each, whose "
                  "gradients add up");
    static_assert(Why != of_stores || possible<Why, Found>,
                  "attune: a graph that stores has no gradient; a cache is for inference: leave the stores out");
    static_assert(
        Why != of_a_recurrence || possible<Why, Found>,
        "attune: attune makes gradients of a recurrence whose states one row reads, q * states, and whose step is "
        "decay * S + t(k) * (values - e * (r * (decay * S))); of earlier(...), several rows that read, and a "
        "second pair of rows in the step not yet");
    static_assert(
        Why != without_scores || possible<Why, Found>,
        "attune: attune makes no gradients yet that no score has a part in; name a tensor that the scores are "
        "made of in wrt(...), too");
    static_assert(Why != too_long || possible<Why, Found>, "attune: the gradient of this graph is too long");
    return Why == none;
}

}  // namespace detail

}  // namespace attune::dsl
