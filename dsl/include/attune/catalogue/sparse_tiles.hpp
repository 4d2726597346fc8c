#pragma once
#include <attune/dsl.hpp>

/// Video sparse attention (VSA, Zhang et al. 2025): tiles of T tokens, of which the first sizes[tile] are real; each
/// query tile sees some key tiles.
namespace attune::catalogue {

using namespace dsl;

/// k % T < sizes[k // T]. (attention-gym generate_vsa_padding_mask_mod)
template <class Sizes> constexpr auto real_tokens(operand auto tokens, Sizes sizes) {
    return kv_idx % tokens < sizes(kv_idx / tokens);
}

/// map[b, h, q // T, k // T]. (attention-gym generate_vsa_block_map_mask_mod)
template <class Map> constexpr auto tile_map(operand auto tokens, Map map) {
    return map(b, h, q_idx / tokens, kv_idx / tokens);
}

/// k // T is one of topk[b, h, q // T]. (attention-gym generate_vsa_mask_mod)
template <class Chosen> constexpr auto chosen_tiles(operand auto tokens, Chosen topk) {
    constexpr auto n = bound_index<"chosen">;
    return any(n, extent<3>(topk), topk(b, h, q_idx / tokens, n) == kv_idx / tokens);
}

/// sum of x[b, h, i T + n, d] over n < sizes[i], divided by sizes[i]: the mean of a tile's real tokens, its coarse
/// token. (attention-gym, VSA pipeline)
template <class X, class Sizes> constexpr auto tile_mean(X x, operand auto i, operand auto tokens, Sizes sizes) {
    constexpr auto n = bound_index<"token">;
    return sum(n, tokens, where(n < sizes(i), x(b, h, i * tokens + n, d_idx), 0.0)) / sizes(i);
}

}  // namespace attune::catalogue
