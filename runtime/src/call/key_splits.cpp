#include "call/bind.hpp"
#include "execution/threads.hpp"

#include <attune/runtime/detail/key_splits.hpp>

#include <algorithm>
#include <cstdlib>

/// Into how many splits a call of decode cuts the keys of each head.
namespace attune::detail {

std::int64_t bound_call::stacked_heads() const {
    return has_key_heads(table_.graph) ? std::max<std::int64_t>(shape_[axis_kind::key_head], 1) : 1;
}

std::int64_t bound_call::stacked_rows() const {
    const std::int64_t heads = std::max<std::int64_t>(shape_[axis_kind::head], 1);
    return std::max<std::int64_t>(heads / stacked_heads(), 1) *
           std::clamp<std::int64_t>(shape_[axis_kind::query], 1, chosen().query_block);
}

std::int64_t bound_call::stacks() const {
    const std::int64_t blocks = (shape_[axis_kind::query] + chosen().query_block - 1) / chosen().query_block;
    return shape_[axis_kind::batch] * stacked_heads() * std::max<std::int64_t>(blocks, 1);
}

/// Whether the heads of a token lie side by side in keys or values: those of one head are pieces of many pages then,
/// and what memory gives beside each piece is the next head's.
bool bound_call::is_token_major() const {
    const graph_ir& graph = table_.graph;
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
        const input_declaration& d = graph.inputs[i];
        int head = -1, key = -1;
        for (int a = 0; !d.is_scalar && a < d.rank; ++a) {
            const axis_kind is = d.axes[static_cast<std::size_t>(a)].kind;
            if (is == axis_kind::key_head) head = a;
            if (is == axis_kind::key) key = a;
        }
        if (head < 0 || key < 0 || d.rank < 4) continue;
        const tensor& t = given_.inputs[i]->view;
        if (t.extent(head) > 1 && t.extent(key) > 1 && std::abs(t.stride(head)) < std::abs(t.stride(key))) return true;
    }
    return false;
}

/// By shapes and by what lies beside what, so that no bit depends on the threads; if asked for, not by the batch or the
/// length of the slots either.
void bound_call::split_keys(const options& how) {
    if (chosen().key_splits == 0) return;
    key_splits_ = chosen().key_splits;
    if (is_deterministic(how)) return;
    // Enough to share out evenly; of a GPU, to have all of its memory's bandwidth asked for.
    const std::int64_t tasks = is_device(chosen().target) ? 1024 : 64;
    const auto splits_for = [this](std::int64_t count) {
        return (count + stacks() - 1) / std::max<std::int64_t>(stacks(), 1);
    };
    const std::int64_t blocks = (shape_[axis_kind::key] + chosen().key_block - 1) / chosen().key_block;
    std::int64_t wanted = splits_for(tasks);
    // A thread reads a split for head after head (pool.cpp): so short that what lies beside is still in its caches.
    if (is_token_major()) wanted = std::max(wanted, shape_[axis_kind::key] / 512);
    // Of fewer blocks there are more only where threads had none else.
    constexpr std::int64_t fewest_tasks = 32;
    if (!is_device(chosen().target))
        wanted = std::min(wanted, std::max(blocks / fewest_blocks_of_split, splits_for(fewest_tasks)));
    key_splits_ = static_cast<std::int32_t>(std::clamp<std::int64_t>(std::min(wanted, blocks / 2), 1, key_splits_));
}

}  // namespace attune::detail
