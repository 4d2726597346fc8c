#pragma once
#include "analysis/plan.hpp"

#include <optional>
#include <vector>

namespace attune::generators {

/// A formula of queries, keys or values that is a number of each channel, in few bits, times factors that all channels
/// share, such as the scale of a token. A product of such rows needs the factors once a pair, not once a channel.
struct narrow_rows {
    int codes{};  ///< the node that varies with the channel: an integer as a real, or an element of eight bits
    std::vector<int> factors;
    bool whole{};      ///< codes are integers
    bool of_8_bits{};  ///< integers from -128 to 127
    bool in_order{};   ///< neighbouring channels lie side by side: a channel's position decides nothing
};

/// Of the tensor at a node; nothing of an input, or of a formula of another form.
std::optional<narrow_rows> narrow_rows_of(const graph_ir& graph, const std::vector<dependence>& depends, int tensor);

/// Whether the products of queries and keys are products of integers of 8 bits, but for factors of each row.
bool multiplies_bytes(const graph_ir& graph, const std::vector<dependence>& depends, const plan& core);

}  // namespace attune::generators
