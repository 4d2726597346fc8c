#pragma once
#include <attune/dsl.hpp>

namespace attune::catalogue {

using namespace dsl;

/// iv[k // T][0] <= q < iv[k // T][1]: text that looks at images of T tokens; a range of queries sees each image.
/// (Flamingo, Alayrac et al. 2022; attention-gym generate_vision_cross_attention_mask_mod)
template <class Intervals> constexpr auto vision_cross_attention(Intervals iv, operand auto tokens) {
    return iv(kv_idx / tokens, 0) <= q_idx && q_idx < iv(kv_idx / tokens, 1);
}

}  // namespace attune::catalogue
