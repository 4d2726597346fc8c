// What a graph stores.
#include "language.hpp"

// --- store_at_a_query_head
// rejects: a store runs over key heads
namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
inline constexpr auto cache = input<"cache", f32>(batch, head, key, depth);
#ifdef REJECT
inline constexpr auto variant =
    outputs(store(cache(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx)), out = out_of_cache);
#else
inline constexpr auto variant =
    outputs(store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx)), out = out_of_cache);
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- store_beside_precomputed
// rejects: a graph that stores has nothing precomputed(...) yet; store in a graph of its own
namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto place = k(b, h, new_kv_idx, d_idx);
inline constexpr auto block = precomputed(slopes(h) * n, n, (key_length + 63) / 64);
#ifdef REJECT
inline constexpr auto seen = top_k(block, 2)(b, h, kv_idx / 64);
#else
inline constexpr auto seen = slopes(h) * as_real(kv_idx) < 2;
#endif
inline constexpr auto variant = outputs(store(place, k_new(b, h, q_idx, d_idx)), out = softmax(mask(scores, seen)) * v);
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- store_in_a_number
// rejects: the first is an element of an input
namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
#ifdef REJECT
inline constexpr auto variant =
    outputs(store(k(b, h, new_kv_idx, d_idx) + 1, k_new(b, h, q_idx, d_idx)), out = out_of_cache);
#else
inline constexpr auto variant =
    outputs(store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx)), out = out_of_cache);
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- store_in_one_place
// rejects: several values of a store have one place
namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
#ifdef REJECT
inline constexpr auto variant =
    outputs(store(k(b, h, kv_lengths(b) - 1, d_idx), k_new(b, h, q_idx, d_idx)), out = out_of_cache);
#else
inline constexpr auto variant =
    outputs(store(k(b, h, kv_lengths(b) - 1, d_idx), k_new(b, h, query_length - 1, d_idx)), out = out_of_cache);
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- store_of_a_key
// rejects: a store runs before any score, and q_idx counts the new keys
namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
#ifdef REJECT
inline constexpr auto variant = outputs(store(k(b, h, kv_idx, d_idx), slopes(0)), out = out_of_cache);
#else
inline constexpr auto variant =
    outputs(store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx)), out = out_of_cache);
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- store_of_a_query_head
// rejects: a store runs over key heads
namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
#ifdef REJECT
inline constexpr auto variant =
    outputs(store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx) * slopes(h)), out = out_of_cache);
#else
inline constexpr auto variant =
    outputs(store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx) * slopes(0)), out = out_of_cache);
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- store_of_a_real_among_integers
// rejects: integers are stored in tensors of integers
namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
inline constexpr auto codes = input<"codes", i8>(batch, key_head, key, depth);
#ifdef REJECT
inline constexpr auto variant =
    outputs(store(codes(b, h, new_kv_idx, d_idx), round(k_new(b, h, q_idx, d_idx))), out = out_of_cache);
#else
inline constexpr auto variant =
    outputs(store(codes(b, h, new_kv_idx, d_idx), clamp(as_integer(round(k_new(b, h, q_idx, d_idx))), -127, 127)),
            out = out_of_cache);
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- store_of_channels_astray
// rejects: the channels of a store run over one axis of its tensor
namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
#ifdef REJECT
inline constexpr auto variant =
    outputs(store(k(b, h, new_kv_idx + d_idx / 32, d_idx), k_new(b, h, q_idx, d_idx)), out = out_of_cache);
#else
inline constexpr auto variant =
    outputs(store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx)), out = out_of_cache);
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- store_of_other_channels
// rejects: the value reads depth or value_depth at d_idx, and the place is along another kind of axis
namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
#ifdef REJECT
inline constexpr auto variant =
    outputs(store(v(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx)), out = out_of_cache);
#else
inline constexpr auto variant =
    outputs(store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx)), out = out_of_cache);
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- store_of_what_it_reads
// rejects: what a call stores, and where, is made of a tensor that the call stores
namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
#ifdef REJECT
inline constexpr auto variant = outputs(
    store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx) + k(b, h, new_kv_idx - 1, d_idx)), out = out_of_cache);
#else
inline constexpr auto variant = outputs(
    store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx) + v(b, h, new_kv_idx - 1, 0)), out = out_of_cache);
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- store_that_may_not_fit
// rejects: an integer is stored in elements of fewer bits
namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
inline constexpr auto codes = input<"codes", i8>(batch, key_head, key, depth);
#ifdef REJECT
inline constexpr auto variant =
    outputs(store(codes(b, h, new_kv_idx, d_idx), as_integer(round(k_new(b, h, q_idx, d_idx)))), out = out_of_cache);
#else
inline constexpr auto variant =
    outputs(store(codes(b, h, new_kv_idx, d_idx), clamp(as_integer(round(k_new(b, h, q_idx, d_idx))), -127, 127)),
            out = out_of_cache);
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- stores_without_an_output
// rejects: a graph that stores has an output, too
namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
#ifdef REJECT
inline constexpr auto variant = outputs(store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx)));
#else
inline constexpr auto variant =
    outputs(store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx)), out = out_of_cache);
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- store_where_it_reads_what_it_stores
// rejects: would be read before it is written or after
namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto slot = input<"slot", i32>(batch, query);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
#ifdef REJECT
inline constexpr auto variant = outputs(
    store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx), k(b, h, new_kv_idx - 1, 0) > 0), out = out_of_cache);
#else
inline constexpr auto variant =
    outputs(store(k(b, h, slot(b, q_idx), d_idx), k_new(b, h, q_idx, d_idx), slot(b, q_idx) >= 0), out = out_of_cache);
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- store_where_a_number_is
// rejects: where(condition, a, b): the first argument is not a condition
namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto slot = input<"slot", i32>(batch, query);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
#ifdef REJECT
inline constexpr auto variant =
    outputs(store(k(b, h, slot(b, q_idx), d_idx), k_new(b, h, q_idx, d_idx), slot(b, q_idx)), out = out_of_cache);
#else
inline constexpr auto variant =
    outputs(store(k(b, h, slot(b, q_idx), d_idx), k_new(b, h, q_idx, d_idx), slot(b, q_idx) != -1), out = out_of_cache);
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my
