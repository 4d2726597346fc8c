#pragma once
#include <attune/dsl.hpp>

namespace attune::catalogue {

using namespace dsl;

/// qb = (q % S) // L, kb likewise; noised = the first S positions, clean = the rest: (qb == kb and both of one half) or
/// (qb > kb, q noised, k clean) or (qb >= kb, both clean). (Block diffusion, Arriola et al. 2025; attention-gym
/// generate_block_diffusion_mask)
constexpr auto block_diffusion(operand auto sequence, operand auto block) {
    const auto qb = q_idx % sequence / block;
    const auto kb = kv_idx % sequence / block;
    const auto q_clean = q_idx >= sequence;
    const auto k_clean = kv_idx >= sequence;
    return (qb == kb && !q_clean && !k_clean) || (qb > kb && !q_clean && k_clean) || (qb >= kb && q_clean && k_clean);
}

}  // namespace attune::catalogue
