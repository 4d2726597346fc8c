#pragma once
#include <attune/dsl.hpp>

/// Weights that are functions of the score other than softmax. `sigmoid`, `relu`, `gelu` and others are the language's
/// own.
namespace attune::catalogue {

using namespace dsl;

/// log(f(s) + N): the score whose softmax is f(s) + N, normalised. (attention-gym generate_activation_score_mod)
constexpr auto as_score(expression auto activated, operand auto offset) { return log(activated + offset); }

/// The weights f(s) as they are. (attention-gym undo_softmax; ReLU attention, Wortsman et al. 2023, divides by Lk)
constexpr auto activation_attention(expression auto activated) { return unnormalized(activated) * v; }

/// sigmoid(s - log Lk), not normalised. (Sigmoid attention, Ramapuram et al. 2024; FlashInfer FlashSigmoid)
constexpr auto sigmoid_attention(expression auto s) { return unnormalized(sigmoid(s - log(as_real(key_length)))) * v; }

/// f(s) V divided by max(|sum of f(s) over the keys|, 1). (RetNet, Sun et al. 2023)
constexpr auto normalised_by_sum(expression auto activated) {
    const auto weights = unnormalized(activated);
    return weights * v / max(abs(row_sum(weights)), 1.0);
}

}  // namespace attune::catalogue
