#pragma once
#include <HalideRuntime.h>

#include <cstdint>
#include <span>

#pragma GCC visibility push(hidden)
namespace attune::detail {

/// States (batch, head, depth, value depth) in somebody's memory, value channels side by side; steps in elements.
struct states_view {
    float* data{};  ///< null: nobody's
    std::int64_t batch{}, head{}, row{};
    bool operator==(const states_view&) const = default;
};

/// The arguments of run_recurrence: the kernel of a chunk, and the places of all tensors.
struct recurrent_call {
    int (*chunk)(void**);
    std::span<void* const> inputs;  ///< argv up to kv_lengths; its first place is that of the user context
    std::span<const halide_buffer_t* const> rows;  ///< outputs proper, whole: (value depth, query, head, batch)
    states_view before;                            ///< of nobody: zeros, or a formula that the kernel computes itself
    states_view after;                             ///< of nobody: no output names the last states
    std::int64_t batches, heads, group;            ///< states of a batch element, and the query heads that share one
    std::int64_t tokens, tokens_of_chunk;
    std::int32_t depth, value_depth;
};

}  // namespace attune::detail
#pragma GCC visibility pop
