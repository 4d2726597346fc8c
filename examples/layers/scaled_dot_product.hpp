#pragma once
#include "names.hpp"

/// softmax(q k^T / sqrt(depth)) v and the probabilities themselves.
namespace layers::scaled_dot_product {
using attune::dsl::k, attune::dsl::q, attune::dsl::v;

constexpr auto with_weights(auto weights, auto values) {
    return outputs(out = weights * values, output<"weights"> = weights);
}
inline constexpr auto plain = with_weights(softmax(q * t(k) * rsqrt(depth)), v);
inline constexpr auto masked =
    with_weights(softmax(mask(q * t(k) * rsqrt(depth), shared_pair_mask(b, h, q_idx, kv_idx) != 0)), v);

// One tensor as queries, keys and values; `+ 0` reads it at a key's position.
inline constexpr auto same = q(b, h, kv_idx + 0, d_idx);
inline constexpr auto shared =
    with_weights(softmax(q * t(keys(same, query_length)) * rsqrt(depth)), values(same, query_length));

}  // namespace layers::scaled_dot_product
