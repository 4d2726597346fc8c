#pragma once
#include "common.hpp"

/// Neighbourhoods on a canvas whose cells are counted in rows, tiles or along a curve.
namespace golden {

inline constexpr auto cols = scalar<"cols", i32>;
inline constexpr auto width = scalar<"W", i32>;
inline constexpr auto height = scalar<"Hc", i32>;
inline constexpr auto window_width = scalar<"Kw", i32>;
inline constexpr auto window_height = scalar<"Kh", i32>;

inline constexpr auto mask_natten =
    masked(catalogue::natten(cols, scalar<"rows", i32>, scalar<"k1", i32>, scalar<"k0", i32>));
inline constexpr auto mask_natten_morton = masked(catalogue::morton_natten(width, height, window_width, window_height));
inline constexpr auto mask_natten_tiled =
    masked(catalogue::tiled_natten(width, height, window_width, window_height, scalar<"Tw", i32>, scalar<"Th", i32>));
inline constexpr auto mask_sasa = masked(catalogue::stand_alone(cols, scalar<"W", i32>));

inline constexpr auto canvas_0 = scalar<"canvas_0", i32>;
inline constexpr auto canvas_1 = scalar<"canvas_1", i32>;
inline constexpr auto kernel_0 = scalar<"kernel_0", i32>;
inline constexpr auto kernel_1 = scalar<"kernel_1", i32>;
inline constexpr auto tile_0 = scalar<"tile_0", i32>;
inline constexpr auto tile_1 = scalar<"tile_1", i32>;
inline constexpr auto mask_sta_2d =
    masked(catalogue::sliding_tiles_2d(canvas_0, canvas_1, kernel_0, kernel_1, tile_0, tile_1));
inline constexpr auto mask_sta_3d =
    masked(catalogue::sliding_tiles_3d(canvas_0, canvas_1, scalar<"canvas_2", i32>, kernel_0, kernel_1,
                                       scalar<"kernel_2", i32>, tile_0, tile_1, scalar<"tile_2", i32>));

}  // namespace golden
