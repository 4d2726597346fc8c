#pragma once
#include "decoder.hpp"

namespace serving {

/// What sequences carry from step to step in the layers with a state, a slot each: the states (slot, state head, depth,
/// depth), and the rows that the convolution sees before the next token (slot, taps - 1, mixed).
class state_pools {
public:
    state_pools(const decoder& model, int slots);

    /// The call of a layer for packed tokens, `starts` (slots + 1) of which say where those of each slot begin. States
    /// go on in place. Slots without tokens rest.
    void run(int layer, const state_rows& rows, std::span<const std::int32_t> starts, std::span<float> out);
    /// A copy of all that a slot has, of which another may begin.
    std::vector<float> kept(std::size_t slot) const;
    /// Begins a sequence with what was kept; with zeros of an empty one.
    void begin(std::size_t slot, std::span<const float> from);
    bool any() const;  ///< whether a layer has a state

private:
    static constexpr std::size_t state_size = state_heads * depth * depth, rows_size = (taps - 1) * mixed;
    struct pool {
        std::vector<float> states, rows;
    };

    const decoder& model_;
    std::int64_t slots_;
    std::vector<pool> pools_;  // by layer; empty where it has no state
};

}  // namespace serving
