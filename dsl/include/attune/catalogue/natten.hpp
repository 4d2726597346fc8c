#pragma once
#include <attune/dsl.hpp>

/// Neighbourhoods on a canvas of pixels, which are numbered row by row, tile by tile, or along a curve.
namespace attune::catalogue {

using namespace dsl;

namespace detail {
/// c - l <= k <= c + r, l = K // 2, r = K // 2 + K % 2 - 1, c = clamp(q, l, N - 1 - r): a window of K cells that stays
/// inside an axis of N. Of an even K one more lies before the query than after it.
constexpr auto near(operand auto q, operand auto k, operand auto window, operand auto cells) {
    const auto before = window / 2;
    const auto after = window / 2 + (window % 2 - 1);
    const auto centre = min(max(q, before), cells - 1 - after);
    return centre - before <= k && k <= centre + after;
}

/// Every second bit of a position, gathered.
constexpr auto even_bits(operand auto i) {
    const auto b1 = i & 0x55555555;
    const auto b2 = (b1 | (b1 >> 1)) & 0x33333333;
    const auto b4 = (b2 | (b2 >> 2)) & 0x0f0f0f0f;
    const auto b8 = (b4 | (b4 >> 4)) & 0x00ff00ff;
    return (b8 | (b8 >> 8)) & 0x0000ffff;
}
}  // namespace detail

/// Near on both axes, pixel i at (i % W, i // W): kernel_w kernel_h keys, even or odd. (Neighborhood attention, Hassani
/// et al. 2023, NATTEN; of odd kernels attention-gym generate_natten)
constexpr auto natten(operand auto width, operand auto height, operand auto kernel_w, operand auto kernel_h) {
    return detail::near(q_idx / width, kv_idx / width, kernel_h, height) &&
           detail::near(q_idx % width, kv_idx % width, kernel_w, width);
}

/// The same, pixels numbered tile by tile: t = i // (Tw Th), o = i % (Tw Th): x = t % (W // Tw) Tw + o % Tw, y = t //
/// (W // Tw) Th + o // Tw. (attention-gym generate_tiled_natten)
constexpr auto tiled_natten(operand auto width, operand auto height, operand auto kernel_w, operand auto kernel_h,
                            operand auto tile_w, operand auto tile_h) {
    const auto area = tile_w * tile_h;
    const auto across = width / tile_w;
    const auto x = [=](auto i) { return i / area % across * tile_w + i % area % tile_w; };
    const auto y = [=](auto i) { return i / area / across * tile_h + i % area / tile_w; };
    return detail::near(x(q_idx), x(kv_idx), kernel_w, width) && detail::near(y(q_idx), y(kv_idx), kernel_h, height);
}

/// The same, pixels along the Z-order curve: x = even bits of i, y = odd bits. (attention-gym generate_morton_natten)
constexpr auto morton_natten(operand auto width, operand auto height, operand auto kernel_w, operand auto kernel_h) {
    return detail::near(detail::even_bits(q_idx), detail::even_bits(kv_idx), kernel_w, width) &&
           detail::near(detail::even_bits(q_idx >> 1), detail::even_bits(kv_idx >> 1), kernel_h, height);
}

/// |qx - kx| <= R and |qy - ky| <= R, without a clamp at the edges. (Stand-alone self-attention, Ramachandran et al.
/// 2019; attention-gym notebook)
constexpr auto stand_alone(operand auto width, operand auto radius) {
    return abs(q_idx / width - kv_idx / width) <= radius && abs(q_idx % width - kv_idx % width) <= radius;
}

}  // namespace attune::catalogue
