#pragma once
#include "../../properties/drawn_graph.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fuzz {

/// Whether a kernel is of a graph, of its gradient or of its shard.
enum class pass : std::uint8_t { none, gradient, shard };
std::string_view name_of(pass made);

struct passed {
    pass made = pass::none;
    std::vector<std::string_view> of, wrt;  ///< of a gradient; none: those that the language takes then

    bool operator==(const passed&) const = default;
    /// The graph's gradient or shard, or the graph itself. Throws std::invalid_argument where there is none.
    attune::testing::drawn_graph graph(const attune::testing::drawn_graph& forward) const;
    /// As the language writes it, of a graph that is called `all`.
    std::string text(const attune::testing::drawn_graph& forward) const;
};

/// Names what a gradient needs of the forward pass: log-sum-exps of the softmaxes and the sums of weights. What has no
/// gradient, scores and weights among them, is no output any more. False where nothing is left.
bool make_differentiable(attune::testing::drawn_graph& graph);

/// Tensors that a gradient may be made of.
std::vector<std::string_view> tensors_of_reals(const attune::testing::drawn_graph& graph);

}  // namespace fuzz
