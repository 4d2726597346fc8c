#pragma once
#include "analysis/plan.hpp"

#include <attune/ir/stores.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace attune::generators::inline analysis {

/// A formula of queries, keys or values: a number of few bits for each channel, times factors that all channels share,
/// such as the scale of a token. A product of such rows needs the factors once a pair, not once a channel.
struct narrow_rows {
    int codes{};       ///< the node that varies with the channel: an integer as a real, or an element of eight bits
    int integer = -1;  ///< of codes that are integers, the node with these
    std::vector<int> factors;
    int scale = -1;    ///< a factor that the channels of a block share; -1: none
    int block{};       ///< the channels of such a block
    int neighbours{};  ///< of such a block, the channels that have one formula and lie side by side
    bool whole{};      ///< codes are integers
    integer_interval range = integer_interval::of_32_bits();  ///< the range of such integers
    bool in_order{};  ///< neighbouring channels lie side by side, and every channel has the same formula

    /// Whether codes are integers from -128 to 127.
    bool of_8_bits() const { return whole && range.is_within({-128, 127}); }
    /// The largest magnitude of a code, and of its distance from the lowest one.
    std::int64_t magnitude() const { return std::max(-range.lowest, range.highest); }
    std::int64_t span() const { return range.highest - range.lowest; }
};

/// The narrow rows of the tensor at a node; nothing for an input, or for a formula of another form.
std::optional<narrow_rows> narrow_rows_of(const graph_ir& graph, const std::vector<dependence>& depends, int tensor);

/// The same, and rows of blocks that each have a scale.
std::optional<narrow_rows> blocked_rows_of(const graph_ir& graph, const std::vector<dependence>& depends, int tensor);

/// The range of a precomputed tensor's elements if they are integers of eight bits: they are kept as such, unless they
/// are an output or a choice is made among them.
std::optional<integer_interval> codes_made_before(const graph_ir& graph, int tensor);

/// Whether an i16 holds the sum of two products of bytes that are no larger than these.
constexpr bool pair_fits_word(std::int64_t one, std::int64_t other) { return 2 * one * other <= 32767; }

}  // namespace attune::generators::inline analysis
