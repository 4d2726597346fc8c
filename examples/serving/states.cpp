#include "states.hpp"

#include "step.hpp"

#include <attune/runtime.hpp>

#include <algorithm>

namespace serving {
namespace {

/// Rows of `width` numbers: those of `tokens` are behind those that are there, of which the newest stay.
void push(std::span<float> rows, std::span<const float> tokens) {
    const std::size_t fresh = std::min(rows.size(), tokens.size());
    std::shift_left(rows.begin(), rows.end(), static_cast<std::ptrdiff_t>(fresh));
    std::ranges::copy(tokens.last(fresh), rows.end() - static_cast<std::ptrdiff_t>(fresh));
}

}  // namespace

state_pools::state_pools(const decoder& model, int slots)
    : model_(model), slots_(slots), pools_(static_cast<std::size_t>(model.layers())) {
    const auto count = static_cast<std::size_t>(slots);
    for (int layer = 0; layer < model.layers(); ++layer)
        if (model.has_state(layer))
            pools_[static_cast<std::size_t>(layer)] = {std::vector<float>(count * state_size),
                                                       std::vector<float>(count * rows_size)};
}

void state_pools::run(int layer, const state_rows& rows, std::span<const std::int32_t> starts, std::span<float> out) {
    namespace of = serving_step;
    pool& own = pools_[static_cast<std::size_t>(layer)];
    const std::int64_t tokens = starts.back();
    const auto by_head = [&](auto* numbers) {  // stored (token, head)
        return attune::tensor(numbers, {1, tokens, state_heads}).swapped(1, 2);
    };
    const auto of_heads = [&](const char* name) {
        return attune::tensor(model_.of(layer, name).data(), {state_heads});
    };
    const attune::tensor states(own.states.data(), {slots_, state_heads, depth, depth});
    attune::run<of::recurrent_step>(
        of::mixed = attune::tensor(rows.mixed.data(), {1, tokens, mixed}),
        of::mixed_before = attune::tensor(own.rows.data(), {slots_, taps - 1, mixed}),
        of::taps = attune::tensor(model_.of(layer, "taps").data(), {mixed, taps}),
        of::decay = by_head(rows.decay.data()), of::step_size = by_head(rows.step.data()),
        of::a_log = of_heads("a_log"), of::dt_bias = of_heads("dt_bias"), of::state_in = states,
        attune::dsl::out = attune::tensor(out.data(), {1, tokens, state_heads, depth}).swapped(1, 2),
        attune::dsl::output<"state_out"> = states,
        attune::dsl::cu_seqlens_q = attune::tensor(starts.data(), {slots_ + 1}));
    for (std::size_t slot = 0; slot + 1 < starts.size(); ++slot) {
        const auto first = static_cast<std::size_t>(starts[slot]), end = static_cast<std::size_t>(starts[slot + 1]);
        push(std::span(own.rows).subspan(slot * rows_size, rows_size),
             rows.mixed.subspan(first * mixed, (end - first) * mixed));
    }
}

std::vector<float> state_pools::kept(std::size_t slot) const {
    std::vector<float> all;
    for (const pool& each : pools_) {
        if (each.states.empty()) continue;
        const auto state = std::span(each.states).subspan(slot * state_size, state_size),
                   rows = std::span(each.rows).subspan(slot * rows_size, rows_size);
        all.insert(all.end(), state.begin(), state.end()), all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
}

void state_pools::begin(std::size_t slot, std::span<const float> from) {
    for (pool& each : pools_) {
        if (each.states.empty()) continue;
        for (const auto to : {std::span(each.states).subspan(slot * state_size, state_size),
                              std::span(each.rows).subspan(slot * rows_size, rows_size)}) {
            if (from.empty()) {
                std::ranges::fill(to, 0.0f);
            } else {
                std::ranges::copy(from.first(to.size()), to.begin());
                from = from.subspan(to.size());
            }
        }
    }
}

bool state_pools::any() const {
    return std::ranges::any_of(pools_, [](const pool& each) { return !each.states.empty(); });
}

}  // namespace serving
