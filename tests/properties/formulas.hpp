#pragma once
#include <attune/dsl.hpp>

/// Variants whose laws are tested: every kind of statistic, output, computed tensor and mask, each beside another way
/// to say the same.
namespace formulas {

using namespace attune::dsl;

inline constexpr auto scale = scalar<"scale", f32>;
inline constexpr auto w = scalar<"w", i32>;
inline constexpr auto n = bound_index<"n">;
inline constexpr auto scores = q * t(k) * scale;

template <class Scores> constexpr auto attention(Scores s) {
    return outputs(out = softmax(s) * v, lse = log_sum_exp(s));
}

inline constexpr auto plain = attention(scores);

// --- outputs of every kind; rows without a visible key are among them where there are more queries than keys
inline constexpr auto seen = mask(scores, bottom_right(window(w, 0)));
inline constexpr auto seen_weights = softmax(seen);
inline constexpr auto every =
    outputs(out = seen_weights * v, lse = log_sum_exp(seen), output<"weights"> = seen_weights,
            output<"sum"> = row_sum(seen_weights), output<"by_key"> = sum_over_queries(seen_weights),
            output<"by_head"> = mean_over_heads(seen_weights), output<"scores"> = seen, output<"raw"> = q * t(k),
            output<"top"> = row_maximum(seen));

// --- statistics
inline constexpr auto sinks = input<"sinks", f32>(head);
inline constexpr auto sunk = outputs(out = softmax(seen, sinks(h)) * v, lse = log_sum_exp(seen, sinks(h)),
                                     output<"weights"> = softmax(seen, sinks(h)));
inline constexpr auto plus_one = outputs(out = softmax_plus_one(scores) * v, lse = log_sum_exp(scores, 0.0));
inline constexpr auto by_key = input<"by_key_bias", f32>(head, key);
inline constexpr auto biased = attention(scores + by_key(h, kv_idx));
inline constexpr auto sigmoids = unnormalized(mask(sigmoid(scores), bottom_right(window(w, 0))));
inline constexpr auto sigmoid_attention =
    outputs(out = sigmoids * v, output<"weights"> = sigmoids, output<"sum"> = row_sum(sigmoids),
            output<"by_key"> = sum_over_queries(sigmoids));
inline constexpr auto exponentials = unnormalized(exp(scores - 4.0));
inline constexpr auto normalised_after = outputs(out = (exponentials * v) / row_sum(exponentials));
inline constexpr auto keep = input<"keep", f32>(batch, head, query, key);
inline constexpr auto kept = outputs(out = seen_weights * keep(b, h, q_idx, kv_idx) * v, lse = log_sum_exp(seen));
inline constexpr auto gate = input<"gate", f32>(batch, head, query, value_depth);
inline constexpr auto gated =
    outputs(out = seen_weights * v * gate(b, h, q_idx, d_idx) + 1.0, lse = log_sum_exp(seen) / 0.6931471805599453,
            output<"shift"> = log_sum_exp(seen) - row_maximum(seen));

// --- computed tensors
inline constexpr auto shift = scalar<"shift", i32>;
inline constexpr auto cosines = input<"cosines", f32>(axis<"angle">, axis<"pair">);
inline constexpr auto sines = input<"sines", f32>(axis<"angle">, axis<"pair">);
inline constexpr auto turned = queries(rotary_half(q, cosines, sines, q_idx + shift)) *
                               t(keys(rotary_half(k, cosines, sines, kv_idx + shift))) * scale;
inline constexpr auto rotary = outputs(out = softmax(turned) * v, output<"scores"> = turned);
inline constexpr auto gain = input<"gain", f32>(depth);
inline constexpr auto normed = attention(queries(rms_norm(q, gain, 0.0)) * t(keys(rms_norm(k, gain, 0.0))) * scale);
inline constexpr auto near_k = input<"near_k", f32>(batch, key_head, axis<"near">, depth);
inline constexpr auto far_k = input<"far_k", f32>(batch, key_head, axis<"far">, depth);
inline constexpr auto near_v = input<"near_v", f32>(batch, key_head, axis<"near">, value_depth);
inline constexpr auto far_v = input<"far_v", f32>(batch, key_head, axis<"far">, value_depth);
template <class Near, class Far> constexpr auto behind(Near near, Far far) {
    return where(kv_idx < extent<2>(near), near(b, h, kv_idx, d_idx), far(b, h, kv_idx - extent<2>(near), d_idx));
}
inline constexpr auto together = extent<2>(near_k) + extent<2>(far_k);
inline constexpr auto concatenated =
    attention(q * t(keys(behind(near_k, far_k), together)) * scale);  // its values are v
inline constexpr auto concatenated_both =
    outputs(out = softmax(q * t(keys(behind(near_k, far_k), together)) * scale) *
                  values(behind(near_v, far_v), extent<2>(near_v) + extent<2>(far_v)));
inline constexpr auto place = input<"place", i32>(batch, axis<"slot">);
inline constexpr auto pool = input<"pool", f32>(axis<"cell">, key_head, depth);
inline constexpr auto gathered = attention(q * t(keys(pool(place(b, kv_idx), h, d_idx), extent<1>(place))) * scale);
inline constexpr auto codes = input<"codes", u8>(batch, key_head, key, depth);
inline constexpr auto step = input<"step", f32>(key_head);
inline constexpr auto dequantised =
    attention(q * t(keys((as_real(codes(b, h, kv_idx, d_idx)) - 8.0) * step(h))) * scale);
inline constexpr auto q_part = input<"q_part", f32>(batch, head, query, axis<"part">);
inline constexpr auto k_part = input<"k_part", f32>(batch, key_head, key, axis<"part">);
inline constexpr auto two_products =
    attention(scores + sum(n, extent<3>(q_part), q_part(b, h, q_idx, n) * k_part(b, h, kv_idx, n)) * scale);

// --- one mask, said in different ways
inline constexpr auto packed = input<"packed", u8>(batch, query, axis<"byte">);
inline constexpr auto by_bit = attention(mask(scores, bit(packed(b, q_idx, kv_idx / 8), kv_idx % 8)));
inline constexpr auto allowed = input<"allowed", boolean>(batch, query, key);
inline constexpr auto by_byte = attention(mask(scores, allowed(b, q_idx, kv_idx)));
inline constexpr auto bytes = input<"bytes", u8>(batch, query, key);
inline constexpr auto by_number = attention(mask(scores, bytes(b, q_idx, kv_idx) != 0));
inline constexpr auto added = input<"added", f32>(batch, query, key);
inline constexpr auto by_infinity = attention(scores + added(b, q_idx, kv_idx));
inline constexpr auto by_formula = attention(mask(scores, (q_idx * 3 + kv_idx * 5 + b) % 7 < 3));
inline constexpr auto listed = input<"listed", i32>(batch, query, axis<"choice">);
inline constexpr auto by_list = attention(mask(scores, any(n, extent<2>(listed), listed(b, q_idx, n) == kv_idx)));

// --- documents packed one behind the other
inline constexpr auto document = input<"document", i32>(position);
inline constexpr auto by_id = attention(mask(scores, document(q_idx) == document(kv_idx) && causal));
inline constexpr auto ends = input<"ends", i32>(axis<"document">);
template <class Index> constexpr auto document_at(Index i) { return sum(n, extent<0>(ends), ends(n) <= i); }
inline constexpr auto by_offset = attention(mask(scores, document_at(q_idx) == document_at(kv_idx) && causal));
inline constexpr auto low = input<"low", i32>(query);
inline constexpr auto high = input<"high", i32>(query);
inline constexpr auto by_range = attention(mask(scores, low(q_idx) <= kv_idx && kv_idx < high(q_idx)));
inline constexpr auto causal_mask = attention(mask(scores, causal));

// --- attention states
inline constexpr auto out_a = input<"out_a", f32>(batch, head, query, value_depth);
inline constexpr auto out_b = input<"out_b", f32>(batch, head, query, value_depth);
inline constexpr auto lse_a = input<"lse_a", f32>(batch, head, query);
inline constexpr auto lse_b = input<"lse_b", f32>(batch, head, query);
inline constexpr auto given_state = state(out_a(b, h, q_idx, d_idx), lse_a(b, h, q_idx));
inline constexpr auto both = merge(given_state, state(out_b(b, h, q_idx, d_idx), lse_b(b, h, q_idx)));
inline constexpr auto merged = outputs(out = both.out, lse = both.lse);
inline constexpr auto next = merge(given_state, state(softmax(scores) * v, log_sum_exp(scores)));
inline constexpr auto appended = outputs(out = next.out, lse = next.lse);

}  // namespace formulas
