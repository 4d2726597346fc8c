#pragma once
#include <attune/dsl.hpp>

/// c tanh(s / c) is the language's own `softcap(c, s)`. (Gemma 2; attention-gym generate_tanh_softcap)
namespace attune::catalogue {

using namespace dsl;

/// c tanh(s / c), then the mask: masked keys weigh nothing. (ONNX Attention since its correction)
constexpr auto softcap_then_mask(operand auto c, expression auto s, expression auto visible) {
    return mask(softcap(c, s), visible);
}

/// c tanh(s / c) + slope (k - q), then the mask. (scale, cap, ALiBi, mask: the order of FlashAttention and FlashInfer)
constexpr auto softcap_alibi(operand auto c, operand auto slope, expression auto s) {
    return softcap(c, s) + slope * (kv_idx - q_idx);
}

}  // namespace attune::catalogue
