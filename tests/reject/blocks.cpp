// Inputs whose elements are blocks, and bits that are read as elements.
#include "language.hpp"

// --- bits_of_a_real
// rejects: from_bits takes an integer, whose last bits are the element's
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + from_bits<f16>(slopes(h))) * v;
#else
inline constexpr auto variant = softmax(scores + from_bits<f16>(h)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- bits_of_sixty_four
// rejects: from_bits reads f32, bf16, f16, f8_e4m3, f8_e5m2, i16 or i8
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + from_bits<i64>(h)) * v;
#else
inline constexpr auto variant = softmax(scores + from_bits<i16>(h)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- blocks_along_the_keys
// rejects: an input of blocks has up to seven axes
namespace my {
#ifdef REJECT
inline constexpr auto variant =
    softmax(scores) * values(input<"c", blocks<q8_0>>(batch, key_head, value_depth, key)(b, h, 0, kv_idx));
#else
inline constexpr auto variant =
    softmax(scores) * values(input<"c", blocks<q8_0>>(batch, key_head, key, value_depth)(b, h, kv_idx, d_idx));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- blocks_as_queries
// rejects: scores are q * t(k); the left factor is not a tensor (batch, head, query, depth)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(input<"c", blocks<q8_0>>(batch, key_head, key, depth) * t(k)) * v;
#else
inline constexpr auto variant = softmax(q * t(input<"c", blocks<q8_0>>(batch, key_head, key, depth))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- codes_beyond_their_block
// rejects: a block has channels, a scale
namespace my {
#ifdef REJECT
inline constexpr block_layout layout{.channels = 32, .bytes = 33, .scale = {f16, 0}, .codes = {.at = 2}};
inline constexpr auto variant = softmax(scores) * input<"c", blocks<layout>>(batch, key_head, key, value_depth);
#else
inline constexpr block_layout layout{.channels = 32, .bytes = 34, .scale = {f16, 0}, .codes = {.at = 2}};
inline constexpr auto variant = softmax(scores) * input<"c", blocks<layout>>(batch, key_head, key, value_depth);
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- blocks_of_nothing
// rejects: a block has one channel at least
namespace my {
#ifdef REJECT
inline constexpr auto variant =
    softmax(scores) *
    values(as_real(input<"c", u8>(batch, key, blocks_of<"block", 0>(value_depth))(b, kv_idx, d_idx / 8)));
#else
inline constexpr auto variant =
    softmax(scores) *
    values(as_real(input<"c", u8>(batch, key, blocks_of<"block", 8>(value_depth))(b, kv_idx, d_idx / 8)));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
