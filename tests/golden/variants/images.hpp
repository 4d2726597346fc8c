#pragma once
#include "common.hpp"

/// Neighbourhoods on a canvas whose cells are counted in rows, tiles or along a curve.
namespace golden {

inline constexpr auto rows = scalar<"rows", i32>;
inline constexpr auto cols = scalar<"cols", i32>;

/// |clamp(q, k/2, n-1-k/2) - key| <= k/2: a window of k cells that stays inside an axis of n.
template <class Q, class K, class Window, class Cells>
constexpr auto near(Q at, K key_at, Window size, Cells cells) {
    return abs(clamp(at, size / 2, cells - 1 - size / 2) - key_at) <= size / 2;
}

inline constexpr auto mask_natten = attention(mask(scores, near(q_idx / cols, kv_idx / cols, scalar<"k0", i32>, rows) &&
                                                           near(q_idx % cols, kv_idx % cols, scalar<"k1", i32>, cols)));

inline constexpr auto reach = scalar<"W", i32>;
inline constexpr auto mask_sasa = attention(mask(scores, abs(q_idx / cols - kv_idx / cols) <= reach && abs(q_idx % cols - kv_idx % cols) <= reach));

inline constexpr auto canvas_width = scalar<"W", i32>;
inline constexpr auto canvas_height = scalar<"Hc", i32>;
inline constexpr auto window_width = scalar<"Kw", i32>;
inline constexpr auto window_height = scalar<"Kh", i32>;

/// Every second bit of a position, gathered: Morton order.
template <class I>
constexpr auto even_bits(I i) {
    const auto a = i & 0x55555555;
    const auto b2 = (a | (a / 2)) & 0x33333333;
    const auto b4 = (b2 | (b2 / 4)) & 0x0f0f0f0f;
    const auto b8 = (b4 | (b4 / 16)) & 0x00ff00ff;
    return (b8 | (b8 / 256)) & 0x0000ffff;
}
inline constexpr auto mask_natten_morton = attention(mask(scores, near(even_bits(q_idx), even_bits(kv_idx), window_width, canvas_width) &&
                                                                  near(even_bits(q_idx / 2), even_bits(kv_idx / 2), window_height, canvas_height)));

/// Cells counted tile by tile, in tiles of Tw x Th.
inline constexpr auto tile_width = scalar<"Tw", i32>;
inline constexpr auto tile_height = scalar<"Th", i32>;
template <class I>
constexpr auto tiled_x(I i) { return i / (tile_width * tile_height) % (canvas_width / tile_width) * tile_width + i % (tile_width * tile_height) % tile_width; }
template <class I>
constexpr auto tiled_y(I i) { return i / (tile_width * tile_height) / (canvas_width / tile_width) * tile_height + i % (tile_width * tile_height) / tile_width; }
inline constexpr auto mask_natten_tiled = attention(mask(scores, near(tiled_x(q_idx), tiled_x(kv_idx), window_width, canvas_width) &&
                                                                 near(tiled_y(q_idx), tiled_y(kv_idx), window_height, canvas_height)));

/// Sliding tiles: windows counted in tiles, followed by text that sees and is seen by everything.
inline constexpr auto canvas_0 = scalar<"canvas_0", i32>;
inline constexpr auto canvas_1 = scalar<"canvas_1", i32>;
inline constexpr auto canvas_2 = scalar<"canvas_2", i32>;
inline constexpr auto tile_0 = scalar<"tile_0", i32>;
inline constexpr auto tile_1 = scalar<"tile_1", i32>;
inline constexpr auto tile_2 = scalar<"tile_2", i32>;

template <class Q, class K, class Window, class Tiles>
constexpr auto tiles_near(Q at, K key_at, Window size, Tiles tiles) {
    const auto before = size / 2;
    const auto after = size / 2 + (size % 2 - 1);
    const auto centre = clamp(at, before, tiles - 1 - after);
    return centre - before <= key_at && key_at <= centre + after;
}

inline constexpr auto across_2d = canvas_1 / tile_1;
template <class I>
constexpr auto tile_2d(I i) { return i / (tile_0 * tile_1); }
inline constexpr auto area = canvas_0 * canvas_1;
inline constexpr auto mask_sta_2d = attention(mask(scores,
    q_idx >= area || kv_idx >= area ||
    (tiles_near(tile_2d(q_idx) / across_2d, tile_2d(kv_idx) / across_2d, scalar<"kernel_0", i32> / tile_0, canvas_0 / tile_0) &&
     tiles_near(tile_2d(q_idx) % across_2d, tile_2d(kv_idx) % across_2d, scalar<"kernel_1", i32> / tile_1, across_2d))));

inline constexpr auto across_3d = canvas_2 / tile_2;
inline constexpr auto down_3d = canvas_1 / tile_1;
template <class I>
constexpr auto tile_3d(I i) { return i / (tile_0 * tile_1 * tile_2); }
inline constexpr auto volume = canvas_0 * canvas_1 * canvas_2;
inline constexpr auto mask_sta_3d = attention(mask(scores,
    q_idx >= volume || kv_idx >= volume ||
    (tiles_near(tile_3d(q_idx) / (down_3d * across_3d), tile_3d(kv_idx) / (down_3d * across_3d), scalar<"kernel_0", i32> / tile_0, canvas_0 / tile_0) &&
     tiles_near(tile_3d(q_idx) / across_3d % down_3d, tile_3d(kv_idx) / across_3d % down_3d, scalar<"kernel_1", i32> / tile_1, down_3d) &&
     tiles_near(tile_3d(q_idx) % across_3d, tile_3d(kv_idx) % across_3d, scalar<"kernel_2", i32> / tile_2, across_3d))));

}  // namespace golden
