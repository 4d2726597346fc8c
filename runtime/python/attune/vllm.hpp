#pragma once
#include <attune/dsl.hpp>

/// The formulas that attune.vllm calls, one for each element type of a cache, for who compiles them ahead of time:
/// attune_add_variant(my_kernels SHARED HEADER <this file> GRAPHS attune::vllm::attention_bf16 DTYPES bf16 DEPTHS 128).
namespace attune::vllm {
using namespace attune::dsl;

inline constexpr auto scale = scalar<"scale", f32>;
inline constexpr auto cap = scalar<"cap", f32>;
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto sinks = input<"sinks", f32>(head);

/// Window before and behind a query's place in its sequence; a side below 0 has no limit, so -1 and 0 are causal.
inline constexpr auto left = scalar<"left", i32>;
inline constexpr auto right = scalar<"right", i32>;
inline constexpr auto visible = bottom_right(window(left, right));

/// The place of a key: row b of the block table names the pages of sequence b. Entries beyond kv_lengths may be
/// anything.
inline constexpr auto block_table = input<"block_table", i32>(batch, axis<"block">);
template <element_type Element>
inline constexpr auto k_pages = input<"k_pages", Element>(axis<"page">, key_head, axis<"token">, depth);
template <element_type Element>
inline constexpr auto v_pages = input<"v_pages", Element>(axis<"page">, key_head, axis<"token">, value_depth);

template <element_type Element> struct paged {
    static constexpr auto tokens = same(extent<2>(k_pages<Element>), extent<2>(v_pages<Element>));
    static constexpr auto room = extent<1>(block_table) * tokens;
    static constexpr auto page = block_table(b, kv_idx / tokens);
    static constexpr auto token = kv_idx % tokens;
    static constexpr auto scores = q * t(keys(k_pages<Element>(page, h, token, d_idx), room)) * scale;
    static constexpr auto v = values(v_pages<Element>(page, h, token, d_idx), room);

    static constexpr auto attention = softmax(mask(scores, visible)) * v;
    static constexpr auto capped = softmax(mask(softcap(cap, scores), visible)) * v;
    static constexpr auto with_sinks = softmax(mask(scores, visible), sinks(h)) * v;
    static constexpr auto distance = kv_idx - (q_idx + (kv_lengths(b) - query_length));
    static constexpr auto alibi = softmax(mask(scores + slopes(h) * distance, visible)) * v;
};

inline constexpr auto attention_f32 = paged<f32>::attention;
inline constexpr auto attention_bf16 = paged<bf16>::attention;
inline constexpr auto attention_f16 = paged<f16>::attention;

/// Scores are bounded by `cap` first, as in Gemma 2.
inline constexpr auto capped_f32 = paged<f32>::capped;
inline constexpr auto capped_bf16 = paged<bf16>::capped;
inline constexpr auto capped_f16 = paged<f16>::capped;

/// A term of each head in the denominator alone, as in gpt-oss.
inline constexpr auto with_sinks_f32 = paged<f32>::with_sinks;
inline constexpr auto with_sinks_bf16 = paged<bf16>::with_sinks;
inline constexpr auto with_sinks_f16 = paged<f16>::with_sinks;

inline constexpr auto alibi_f32 = paged<f32>::alibi;
inline constexpr auto alibi_bf16 = paged<bf16>::alibi;
inline constexpr auto alibi_f16 = paged<f16>::alibi;

}  // namespace attune::vllm
