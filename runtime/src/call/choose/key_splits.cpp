#include "call/bind/bind.hpp"
#include "execution/threads.hpp"

#include <attune/ir/recurrence.hpp>
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

/// Whether the heads of a token lie side by side in keys or values. The keys of one head are then pieces of many pages,
/// and memory delivers the next head's beside each piece.
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

/// The most keys that one query sees, whatever is in use.
std::int64_t bound_call::keys_of_query(const matched_arguments& given) const {
    const kernel::key_bound& seen = chosen().visible_keys;
    if (!seen.bounded()) return shape_[axis_kind::key];
    std::int64_t keys = seen.constant;
    for (const auto& [node, factor] : seen.numbers)
        if (factor != 0) keys += factor * number_of_call(shape_, table_.graph, given, node_at(node));
    return std::clamp<std::int64_t>(keys, 0, shape_[axis_kind::key]);
}

/// The keys in use that some query can see, of the batch element that has the most, and of all of them. If the host
/// cannot read kv_lengths, all slots count.
bound_call::seen_keys bound_call::keys_in_use(const matched_arguments& given) const {
    const std::int64_t batches = shape_[axis_kind::batch], slots = shape_[axis_kind::key];
    const std::int64_t queries = std::min<std::int64_t>(shape_[axis_kind::query], chosen().query_block),
                       visible = keys_of_query(given) + queries - 1;
    const tensor* const lengths = given.kv_lengths ? &given.kv_lengths->view : nullptr;
    if (!lengths || lengths->where() != memory::host)
        return {slots, std::min(slots, visible), batches * std::min(slots, visible)};
    seen_keys result;
    const auto* const values = static_cast<const std::int32_t*>(lengths->data());
    const std::int64_t step = lengths->extent(0) > 1 ? lengths->stride(0) : 0;
    for (std::int64_t b = 0; b < batches; ++b) {
        const std::int64_t keys = std::clamp<std::int64_t>(values[b * step], 0, slots), seen = std::min(keys, visible);
        result.longest = std::max(result.longest, keys), result.most_seen = std::max(result.most_seen, seen);
        result.all_seen += seen;
    }
    return result;
}

/// The number of splits depends on shapes, on the visible keys and on the layout of heads, so no bit depends on the
/// threads or on the slots. If determinism is asked for, it depends on neither the batch nor the keys.
std::int32_t bound_call::splits_of(std::int64_t keys) const {
    if (how_.deterministic || chosen().key_splits <= 1) return chosen().key_splits;
    // Enough to share out evenly; on a GPU, enough to ask for all of the memory's bandwidth.
    const std::int64_t tasks = is_device(chosen().target) ? 1024 : 64;
    const auto splits_for = [this](std::int64_t count) {
        return (count + stacks() - 1) / std::max<std::int64_t>(stacks(), 1);
    };
    const std::int64_t blocks = (keys + chosen().key_block - 1) / chosen().key_block;
    std::int64_t wanted = splits_for(tasks);
    // A thread reads a split for head after head (pool.cpp). Splits are so short that the neighbouring head is still in
    // its caches.
    if (keys / 512 > wanted && is_token_major()) wanted = keys / 512;
    // Splits are shorter than `fewest_blocks_of_split` only if threads would have no task otherwise.
    constexpr std::int64_t fewest_tasks = 32;
    if (!is_device(chosen().target))
        wanted = std::min(wanted, std::max(blocks / fewest_blocks_of_split, splits_for(fewest_tasks)));
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(std::min(wanted, blocks / 2), 1, chosen().key_splits));
}

int bound_call::key_splits() const { return chosen().key_splits == 0 ? 0 : splits_of(keys_in_use(given_).most_seen); }

std::int64_t bound_call::longest_keys() const {
    const named_argument* const lengths = given_.kv_lengths;
    return lengths && lengths->view.where() != memory::host ? 0 : keys_in_use(given_).longest;
}

/// The user context, the inputs, kv_lengths, and the two numbers of decode.
std::size_t bound_call::inputs_of_kernel() const { return table_.graph.inputs.size() + 2 + (most_splits_ ? 2 : 0); }

/// The numbers of one run: lengths are read anew, since a prepared call may have others.
void bound_call::count_keys(const matched_arguments& given, std::array<std::int32_t, 2>& numbers,
                            std::span<void*> argv) const {
    const seen_keys keys = keys_in_use(given);
    numbers = {splits_of(keys.most_seen), static_cast<std::int32_t>(keys.longest)};
    const std::size_t end = inputs_of_kernel();
    argv[end - 2] = &numbers[0], argv[end - 1] = &numbers[1];
}

/// In multiply-adds and elements read. A thread does some 20 to 50 of them in a nanosecond: each key is read once and
/// multiplied with every row, and a weight takes about as long as 32 channels. Each element of a recurrence's state is
/// read and written in each chunk, and multiplied some times for each token.
std::int64_t bound_call::work(const matched_arguments& given) const {
    if (const node_id recurrence = recurrence_of(table_.graph.nodes); recurrence >= 0) {
        const bool of_key_heads = has_states_of_key_heads(table_.graph, recurrence);
        const std::int64_t tokens = shape_[axis_kind::query],
                           chunks = (tokens + chosen().query_block - 1) / chosen().query_block,
                           states =
                               shape_[axis_kind::batch] * shape_[of_key_heads ? axis_kind::key_head : axis_kind::head];
        return std::min(states * chosen().depth * chosen().value_depth, endless_work >> 24) *
               std::min<std::int64_t>(8 * chunks + 4 * tokens, 1 << 24);
    }
    if (chosen().key_splits == 0 || chosen().product_positions != 0 || is_device(chosen().target)) return endless_work;
    const std::int64_t blocks = (shape_[axis_kind::query] + chosen().query_block - 1) / chosen().query_block;
    return keys_in_use(given).all_seen * stacked_heads() * blocks * (stacked_rows() + 1) *
           (chosen().depths_of_pair + 32);
}

}  // namespace attune::detail
