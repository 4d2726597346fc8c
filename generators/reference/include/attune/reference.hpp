#pragma once
#include <attune/reference/evaluate.hpp>
#include <attune/runtime/run.hpp>

#include <span>

/// The reference evaluator on a call's own tensors, to tell whether a number is the kernel's or the formula's:
///
///     const auto expected = attune::reference::evaluate<my::alibi>(q = Q, k = K, v = V, slopes = S);
///     const double error = expected.largest_error("out", O);
///
/// Programs that include this header link attune::reference. No kernel is needed, and none is run.
namespace attune::reference {

/// `evaluate<graph>` for a graph as a list, and for arguments whose names are known at run time. It refuses by
/// attune::error all that a call refuses, with the same sentences, and indices as options::checked does; then it
/// evaluates. `name`, of the graph, is for these sentences. A call with cu_seqlens_q without sequences is refused, too.
/// Outputs may be left out; if no tensor and no option gives the depth of computed values, it is that of q and k.
/// Tensors lie in host memory.
results evaluate_call(const char* name, const graph_ir& graph, std::span<const detail::named_argument> arguments,
                      const options& how = {});

/// Computes a graph as `attune::run` takes it: the same arguments by name, of any element types, strides, kv_lengths,
/// cu_seqlens_q and numbers that a kernel can be compiled for. Nothing is written. Outputs may be passed, and are then
/// checked as a call checks them; attune::options may be, too, and change nothing.
template <const auto& Graph, class... Arguments> results evaluate(const options& how, const Arguments&... arguments) {
    if constexpr (detail::check_question<Graph>(detail::named_arguments<Arguments...>{})) {
        const auto list = detail::list_of<Graph>(detail::named_arguments<Arguments...>{}, arguments...);
        return evaluate_call("the formula", dsl::ir_of<Graph>, list.given, how);
    } else
        return {};
}
template <const auto& Graph, class First, class... Rest>
    requires(!std::same_as<First, options>)
results evaluate(const First& first, const Rest&... rest) {
    return evaluate<Graph>(options{}, first, rest...);
}

}  // namespace attune::reference
