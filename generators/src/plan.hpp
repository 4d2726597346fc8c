#pragma once
#include <attune/dsl/listing.hpp>

#include <cstdint>
#include <vector>

namespace attune::generators {

/// A listing read as one kernel: the nodes that the lowering starts from. Positions in listing::nodes and listing::inputs.
struct plan {
    int scores{};        ///< what softmax and log_sum_exp see
    int contraction{};   ///< the one q * t(k) under it
    int query{}, key{};  ///< inputs
    int value{-1};       ///< input; -1 where only rows are made
    int hidden_rows{};   ///< of the kernel: what its first pass over the scores leaves to a second one

    enum class made : std::uint8_t { weighted_sum, log_sum_exp };
    std::vector<made> outputs;  ///< one for each of listing::outputs
};

/// Throws std::runtime_error, a sentence in the words of the language, for a listing that is not one kernel: no output, an
/// output that is neither a weighted sum nor a log-sum-exp row, several scores, q * t(k) other than once, several values.
plan plan_of(const listing& graph);

/// What a node's value depends on, and whether it is worth computing once and keeping.
struct dependence {
    bool query{}, key{}, head{}, batch{}, channel{}, score{};
    std::uint64_t bound{};  ///< the bound indices that are free in it, a bit each
    bool costly{};     ///< contains a load, a division, a remainder or a function: keep rather than recompute
    bool irregular{};  ///< is not monotone in its indices: only a table gives its exact range over a tile

    /// One number for all queries, keys and channels of a (batch, head).
    bool uniform() const { return !query && !key && !channel && !score && bound == 0; }
};

/// One for each node, in order.
std::vector<dependence> dependences(const listing& graph);

}  // namespace attune::generators
