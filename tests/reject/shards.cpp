// Shards of graphs, and plans of calls over ranks.
#include "language.hpp"

// --- plan_of_no_graph
// rejects: a plan is made for graphs: plan<my::alibi_shard>(world, ...)
#include <attune/mpi/plan.hpp>

namespace my {
inline constexpr auto part = shard(outputs(out = softmax(scores) * v, lse = log_sum_exp(scores)));
attune::mpi::layout of(attune::mpi::context& world) {
#ifdef REJECT
    return attune::mpi::plan<>(world, {});
#else
    return attune::mpi::plan<part>(world, {});
#endif
}
}  // namespace my

// --- shard_of_a_gradient_of_arithmetic
// rejects: arithmetic after the sum belongs after the last call
namespace my {
inline constexpr auto gates = input<"gate", f32>(batch, head, query, value_depth);
inline constexpr auto sum = softmax(scores) * v;
#ifdef REJECT
inline constexpr auto forward =
    outputs(out = sum * gates(b, h, q_idx, d_idx), output<"sum"> = sum, lse = log_sum_exp(scores));
inline constexpr auto variant = shard(gradient(forward, of(out)));
#else
inline constexpr auto forward = outputs(out = sum, lse = log_sum_exp(scores));
inline constexpr auto variant = shard(gradient(forward, of(out)));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- shard_of_a_shard
// rejects: a shard has no shards; it takes any keys
namespace my {
inline constexpr auto forward = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
#ifdef REJECT
inline constexpr auto variant = shard(shard(forward));
#else
inline constexpr auto variant = shard(forward);
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- shard_of_arithmetic_after_the_sum
// rejects: arithmetic after the sum belongs after the last call
namespace my {
#ifdef REJECT
inline constexpr auto variant = shard(outputs(out = softmax(scores) * v * 2.0, lse = log_sum_exp(scores)));
#else
inline constexpr auto variant = shard(outputs(out = softmax(scores) * 2.0 * v, lse = log_sum_exp(scores)));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- shard_of_keys_read_elsewhere
// rejects: a shard has some rows of q, k and v; the formula reads rows of one of them at another index, too
namespace my {
inline constexpr auto before_last = max(kv_idx - 1, 0);
#ifdef REJECT
inline constexpr auto variant = shard(outputs(out = unnormalized(q * t(k) + k(b, h, before_last, 0)) * v));
#else
inline constexpr auto variant = shard(outputs(out = unnormalized(q * t(k) + more_keys(b, h, before_last, 0)) * v));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- shard_of_precomputed
// rejects: attune makes no shard of a graph with precomputed tensors
namespace my {
inline constexpr auto block = precomputed(slopes(h) * n, n, (key_length + 63) / 64);
#ifdef REJECT
inline constexpr auto masked = mask(scores, top_k(block, 2)(b, h, kv_idx / 64));
#else
inline constexpr auto masked = mask(scores, slopes(h) * kv_idx > 64.0);
#endif
inline constexpr auto variant = shard(outputs(out = softmax(masked) * v, lse = log_sum_exp(masked)));
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- shard_of_stores
// rejects: a graph that stores has no shard
namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
inline constexpr auto store_one = store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx));
#ifdef REJECT
inline constexpr auto variant = shard(outputs(store_one, out = softmax(scores) * v, lse = log_sum_exp(scores)));
#else
inline constexpr auto variant = shard(outputs(out = softmax(scores) * v, lse = log_sum_exp(scores)));
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- shard_of_two_softmaxes
// rejects: a shard has one softmax; make a graph of each
namespace my {
inline constexpr auto one = softmax(scores) * v;
inline constexpr auto two = softmax(mask(scores, causal)) * v;
#ifdef REJECT
inline constexpr auto variant = shard(outputs(out = one, output<"other"> = two, lse = log_sum_exp(scores)));
#else
inline constexpr auto variant = shard(outputs(out = one, lse = log_sum_exp(scores)));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- shard_of_weights
// rejects: the outputs of a shard are sums over the keys, their log_sum_exp and row_maximum; scores, weights
namespace my {
#ifdef REJECT
inline constexpr auto variant = shard(outputs(output<"weights"> = softmax(scores), lse = log_sum_exp(scores)));
#else
inline constexpr auto variant = shard(outputs(output<"sum"> = row_sum(softmax(scores)), lse = log_sum_exp(scores)));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- shard_without_log_sum_exp
// rejects: the shard of a softmax needs its log_sum_exp, of the same scores and sink, among the outputs
namespace my {
#ifdef REJECT
inline constexpr auto variant = shard(outputs(out = softmax(scores, 0.0) * v, lse = log_sum_exp(scores)));
#else
inline constexpr auto variant = shard(outputs(out = softmax(scores, 0.0) * v, lse = log_sum_exp(scores, 0.0)));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
