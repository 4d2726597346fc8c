#pragma once
#include <attune/dsl.hpp>

/// Scores of queries and keys that the call itself quantises. x is q or another input like it, y is k or another input
/// like it.
namespace attune::catalogue {

using namespace dsl;

/// q . k / sqrt(D), of codes of eight bits: a query has a step of its own, and B neighbouring keys, less the mean of
/// all, have one, as in `sage_scores<64>(q, k)`; the product of the query and that mean is added. All products are of
/// bytes in `quantized<u8>(softmax(scores)) * values(quantized<i8, B>(v))`. (SageAttention, Zhang et al. 2024)
template <int B, class Q, class K> constexpr auto sage_scores(Q x, K y) {
    return (queries(quantized<i8>(x)) * t(keys(quantized<i8, B>(smoothed(y)))) + mean_score(x, y)) * rsqrt(depth);
}

}  // namespace attune::catalogue
