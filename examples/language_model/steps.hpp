#pragma once
#include <attune/catalogue/jetspec.hpp>
#include <attune/dsl.hpp>

/// What an engine calls for each layer of a language model: new keys, normalised and rotated, go into the cache with
/// their values, and queries attend to it. A formula for each model, order of new tokens and form of a cache.
namespace steps {
using namespace attune::dsl;

inline constexpr auto n = bound_index<"n">;
inline constexpr auto cosines = input<"cosines", f32>(position, axis<"pair">);
inline constexpr auto sines = input<"sines", f32>(position, axis<"pair">);
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto v_new = input<"v_new", f32>(batch, key_head, query, value_depth);

/// New tokens one behind the other.
struct in_a_row {
    static constexpr auto position = new_kv_idx;
    static constexpr auto visible = causal_bottom_right;
    static constexpr auto within(auto reach) { return kv_idx >= new_kv_idx - reach; }
};

/// New tokens as a tree of drafts: a token stands `level` behind the root, and sees what is stored and those above it.
/// Its key goes to the next slot all the same.
inline constexpr auto level = input<"level", i32>(batch, query);
inline constexpr auto above = input<"above", boolean>(batch, query, axis<"draft">);
struct in_a_tree {
    static constexpr auto stored = kv_lengths(b) - query_length;
    static constexpr auto position = stored + level(b, q_idx);
    static constexpr auto visible =
        attune::catalogue::draft_tree([](auto query, auto draft) { return above(b, query, draft); });
    static constexpr auto within(auto reach) { return kv_idx >= stored - reach && kv_idx >= position - reach; }
};

/// Llama. Its GGUF has the channels of a pair side by side.
template <class Order> struct llama_layer {
    static constexpr auto key = rotary_interleaved(k_new, cosines, sines, Order::position);
    static constexpr auto query = queries(rotary_interleaved(q, cosines, sines, Order::position));
    static constexpr auto visible = Order::visible;
};

/// Gemma 3: queries and keys are normalised first. A local layer sees `reach` keys before a query's own, with a
/// rotation of its own; in a global layer `reach` is as long as the cache.
inline constexpr auto q_gain = input<"q_gain", f32>(depth);
inline constexpr auto k_gain = input<"k_gain", f32>(depth);
inline constexpr auto reach = scalar<"reach", i32>;
template <class Order> struct gemma_layer {
    static constexpr auto key = rotary_half(rms_norm(k_new, k_gain, 1e-6), cosines, sines, Order::position);
    static constexpr auto query = queries(rotary_half(rms_norm(q, q_gain, 1e-6), cosines, sines, Order::position));
    static constexpr auto visible = Order::visible && Order::within(reach);
};

/// Slots of each sequence side by side, in f32 or bf16.
template <class Layer>
inline constexpr auto contiguous = outputs(store(k(b, h, new_kv_idx, d_idx), Layer::key(d_idx)),
                                           store(v(b, h, new_kv_idx, d_idx), v_new(b, h, q_idx, d_idx)),
                                           out = softmax(mask(Layer::query * t(k) * rsqrt(depth), Layer::visible)) * v);
inline constexpr auto llama = contiguous<llama_layer<in_a_row>>;
inline constexpr auto gemma = contiguous<gemma_layer<in_a_row>>;
inline constexpr auto llama_tree = contiguous<llama_layer<in_a_tree>>;
inline constexpr auto gemma_tree = contiguous<gemma_layer<in_a_tree>>;

/// Slots of bytes, with a scale a row: 1/127 of its largest element.
inline constexpr auto k8 = input<"k8", i8>(batch, key_head, key, depth);
inline constexpr auto v8 = input<"v8", i8>(batch, key_head, key, value_depth);
inline constexpr auto k_scale = input<"k_scale", f32>(batch, key_head, key);
inline constexpr auto v_scale = input<"v_scale", f32>(batch, key_head, key);
inline constexpr auto new_value = channels(q_idx, [](auto d) { return v_new(b, h, q_idx, d); });
template <class Row> constexpr auto scale_of(Row row) {
    return max(largest(n, depth, abs(row(n))), 1e-20) * (1.0 / 127);
}
template <class Row> constexpr auto bytes_of(Row row) {
    return clamp(as_integer(round(row(d_idx) / scale_of(row))), -127, 127);
}
template <class Layer>
inline constexpr auto of_bytes = outputs(
    store(k_scale(b, h, new_kv_idx), scale_of(Layer::key)), store(k8(b, h, new_kv_idx, d_idx), bytes_of(Layer::key)),
    store(v_scale(b, h, new_kv_idx), scale_of(new_value)), store(v8(b, h, new_kv_idx, d_idx), bytes_of(new_value)),
    out = softmax(mask(Layer::query * t(keys(k8(b, h, kv_idx, d_idx) * k_scale(b, h, kv_idx))) * rsqrt(depth),
                       Layer::visible)) *
          values(v8(b, h, kv_idx, d_idx) * v_scale(b, h, kv_idx)));
inline constexpr auto llama_bytes = of_bytes<llama_layer<in_a_row>>;
inline constexpr auto gemma_bytes = of_bytes<gemma_layer<in_a_row>>;
inline constexpr auto llama_bytes_tree = of_bytes<llama_layer<in_a_tree>>;
inline constexpr auto gemma_bytes_tree = of_bytes<gemma_layer<in_a_tree>>;

/// Pages of 64 tokens in bf16, which a block table finds.
inline constexpr auto page_tokens = 64;
inline constexpr auto block_table = input<"block_table", i32>(batch, axis<"block">);
inline constexpr auto k_pages = input<"k_pages", bf16>(axis<"page">, key_head, axis<"token">, depth);
inline constexpr auto v_pages = input<"v_pages", bf16>(axis<"page">, key_head, axis<"token">, value_depth);
template <class Pages, class Place> constexpr auto in_pages(const Pages& pages, Place place) {
    return pages(block_table(b, place / page_tokens), h, place % page_tokens, d_idx);
}
inline constexpr auto slots = extent<1>(block_table) * page_tokens;
template <class Layer>
inline constexpr auto of_pages = outputs(
    store(in_pages(k_pages, new_kv_idx), Layer::key(d_idx)),
    store(in_pages(v_pages, new_kv_idx), v_new(b, h, q_idx, d_idx)),
    out = softmax(mask(Layer::query * t(keys(in_pages(k_pages, kv_idx), slots)) * rsqrt(depth), Layer::visible)) *
          values(in_pages(v_pages, kv_idx), slots));
inline constexpr auto llama_pages = of_pages<llama_layer<in_a_row>>;
inline constexpr auto gemma_pages = of_pages<gemma_layer<in_a_row>>;
inline constexpr auto llama_pages_tree = of_pages<llama_layer<in_a_tree>>;
inline constexpr auto gemma_pages_tree = of_pages<gemma_layer<in_a_tree>>;

}  // namespace steps
