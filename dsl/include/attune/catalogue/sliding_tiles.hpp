#pragma once
#include <attune/catalogue/natten.hpp>

/// Sliding tile attention (Zhang et al. 2025): windows counted in tiles of a canvas, followed by text that sees
/// everything and that everything sees. Pixels are numbered tile by tile.
namespace attune::catalogue {

using namespace dsl;

/// Near in tiles on both axes, tile t = i // (tile_0 tile_1) at (t // N_1, t % N_1), N_a = canvas_a // tile_a.
/// (attention-gym generate_sta_mask_mod_2d)
constexpr auto sliding_tiles_2d(operand auto canvas_0, operand auto canvas_1, operand auto kernel_0,
                                operand auto kernel_1, operand auto tile_0, operand auto tile_1) {
    const auto area = canvas_0 * canvas_1;
    const auto across = canvas_1 / tile_1;
    const auto q_tile = q_idx / (tile_0 * tile_1);
    const auto k_tile = kv_idx / (tile_0 * tile_1);
    return q_idx >= area || kv_idx >= area ||
           (detail::near(q_tile / across, k_tile / across, kernel_0 / tile_0, canvas_0 / tile_0) &&
            detail::near(q_tile % across, k_tile % across, kernel_1 / tile_1, across));
}

/// The same on (time, height, width). (attention-gym generate_sta_mask_mod_3d)
constexpr auto sliding_tiles_3d(operand auto canvas_0, operand auto canvas_1, operand auto canvas_2,
                                operand auto kernel_0, operand auto kernel_1, operand auto kernel_2,
                                operand auto tile_0, operand auto tile_1, operand auto tile_2) {
    const auto volume = canvas_0 * canvas_1 * canvas_2;
    const auto down = canvas_1 / tile_1;
    const auto across = canvas_2 / tile_2;
    const auto q_tile = q_idx / (tile_0 * tile_1 * tile_2);
    const auto k_tile = kv_idx / (tile_0 * tile_1 * tile_2);
    return q_idx >= volume || kv_idx >= volume ||
           (detail::near(q_tile / (down * across), k_tile / (down * across), kernel_0 / tile_0, canvas_0 / tile_0) &&
            detail::near(q_tile / across % down, k_tile / across % down, kernel_1 / tile_1, down) &&
            detail::near(q_tile % across, k_tile % across, kernel_2 / tile_2, across));
}

}  // namespace attune::catalogue
