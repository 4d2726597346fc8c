#pragma once
#include <attune/dsl.hpp>
#include <attune/dsl/layers.hpp>
#include <attune/dsl/recurrent.hpp>

/// Graphs whose text is kept in texts.txt: one a feature of the language.
namespace variants {
using namespace attune::dsl;

inline constexpr auto scores = q * t(k) * rsqrt(depth);
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto document = input<"document", i32>(position);
inline constexpr auto is_global = input<"is_global", boolean>(position);
inline constexpr auto table = input<"table", f32>(head, axis<"distance">);
inline constexpr auto w = scalar<"w", i32>;
inline constexpr auto cap = scalar<"cap", f32>;

inline constexpr auto plain = softmax(scores) * v;
inline constexpr auto causal_attention = softmax(mask(scores, causal)) * v;
inline constexpr auto bottom_right_window = softmax(mask(scores, bottom_right(window(w, 0)))) * v;
// clang-format off
inline constexpr auto alibi = softmax(mask(scores + slopes(h) * (kv_idx - q_idx), causal && window(4095, 0))) * v;
// clang-format on
inline constexpr auto alibi_by_formula = softmax(scores + alibi_slope * (kv_idx - q_idx)) * v;
inline constexpr auto capped = softmax(mask(softcap(cap, scores), causal)) * v;
inline constexpr auto documents = softmax(mask(scores, document(q_idx) == document(kv_idx))) * v;
inline constexpr auto longformer = softmax(mask(scores, causal && (window(w, 0) || is_global(kv_idx)))) * v;
inline constexpr auto relative = softmax(scores + table(h, max(min(q_idx - kv_idx, 16), -16) + 16)) * v;
inline constexpr auto integers =
    softmax(mask(scores, (((q_idx / 4 % 3) ^ (kv_idx & 7)) | 1) != 2 && !(kv_idx % 5 == 4))) * v;
inline constexpr auto masked_by_where = softmax(where(q_idx >= kv_idx, scores, -inf)) * v;
inline constexpr auto fractions =
    softmax(scores * 0.1 + as_real(kv_idx) / key_length + floor_div(kv_idx, key_length) - 1.0 / 3.0) * v;
inline constexpr auto padded = softmax(mask(scores, kv_idx < kv_lengths(b))) * v;
inline constexpr auto shared = mask(scores + slopes(h) * (kv_idx - q_idx), causal);
inline constexpr auto two_outputs = outputs(out = softmax(shared) * v, lse = log_sum_exp(shared));
inline constexpr auto functions =
    softmax(tanh(scores) + exp(slopes(h)) * log(cap) - erf(scores) * abs(kv_idx - q_idx) + sqrt(cap) * sigmoid(cap)) *
    v;
inline constexpr auto turned =
    sin(scores) + cos(cap) * tan(slopes(h)) + asin(cap) - acos(cap) * atan(scores) + sinh(cap) + cosh(cap);
inline constexpr auto grown = exp2(cap) + expm1(scores) - log1p(cap) * log2(as_real(kv_idx + 1));
inline constexpr auto whole = floor(scores) + ceil(cap) * round(slopes(h)) - trunc(cap);
inline constexpr auto of_two = atan2(scores, q_idx) + pow(cap, 2) * pow(2, slopes(h)) - fmod(kv_idx, cap);
inline constexpr auto elementary = softmax(turned + grown + whole + of_two) * v;
inline constexpr auto rectifiers = softmax(relu(scores) + silu(scores) * gelu(cap) - gelu_tanh(cap) + softplus(scores) +
                                           logaddexp(scores, cap) + clamp(scores, -cap, 3) * sign(scores)) *
                                   v;
inline constexpr auto whole_numbers =
    softmax(scores + table(h, clamp(as_integer(scores), -16, 16) + 16) * relu(kv_idx - q_idx) + sign(q_idx - kv_idx) +
            floor_div(q_idx, 4) - floor_div(cap, 4)) *
    v;
inline constexpr auto classified =
    softmax(where(isnan(scores) || isinf(slopes(h)), 0.0, where(isfinite(scores), scores, 1.0))) * v;
// clang-format off
inline constexpr auto conditions = softmax(mask(scores, (((q_idx >= kv_idx) & (kv_idx > 3)) | ~is_global(kv_idx)) ^ is_global(q_idx)) + where(is_global(q_idx) == is_global(kv_idx), 1, 2) + where(is_global(q_idx) != causal, ~kv_idx, 0)) * v;
// clang-format on

// Bound indices, bits, extents.
inline constexpr auto n = bound_index<"n">;
inline constexpr auto ends = input<"ends", i32>(batch, axis<"document">);
inline constexpr auto types = input<"types", i32>(batch, query, key, axis<"hop">);
inline constexpr auto edges = input<"edges", f32>(head, axis<"hop">, axis<"type">);
inline constexpr auto hops = input<"hops", i32>(batch, query, key);
inline constexpr auto packed = input<"packed", u8>(batch, query, axis<"byte">);
inline constexpr auto bits =
    softmax(mask(scores, bit(packed(b, q_idx, kv_idx / 8), kv_idx % 8) || (kv_idx + 1 << 2) % 3 == 0)) * v;
inline constexpr auto paths =
    softmax(scores +
            sum(n, extent<3>(types), where(n < hops(b, q_idx, kv_idx), edges(h, n, types(b, q_idx, kv_idx, n)), 0.0)) /
                max(hops(b, q_idx, kv_idx), 1)) *
    v;
// clang-format off
inline constexpr auto packed_documents = softmax(mask(scores, causal && sum(n, extent<1>(ends), ends(b, n) <= q_idx) ==
                                                                  sum(n, extent<1>(ends), ends(b, n) <= kv_idx))) *
                                         v;
// clang-format on
inline constexpr auto everywhere =
    softmax(mask(scores, all(n, extent<1>(ends), kv_idx != ends(b, n)) || any(n, 4, q_idx == ends(b, n)))) * v;
inline constexpr auto buckets =
    softmax(scores + table(h, as_integer(log(as_real(abs(q_idx - kv_idx) + 1)) * 4.0) + as_integer(causal))) * v;
inline constexpr auto signs =
    softmax(scores + -as_real(h) * abs(as_real(q_idx)) + as_integer(as_real(kv_idx) * 0.5)) * v;

// Formed tensors.
inline constexpr auto cosines = input<"cosines", f32>(position, axis<"pair">);
inline constexpr auto sines = input<"sines", f32>(position, axis<"pair">);
inline constexpr auto gain = input<"gain", f32>(depth);
inline constexpr auto rotary =
    softmax(queries(rotary_half(q, cosines, sines)) * t(keys(rotary_half(k, cosines, sines))) * rsqrt(depth)) * v;
inline constexpr auto rotary_normalised =
    softmax(queries(rotary_interleaved(rms_norm(q, gain, 1e-6), cosines, sines, q_idx + (key_length - query_length))) *
            t(keys(rotary_interleaved(rms_norm(k, gain, 1e-6), cosines, sines)))) *
    v;
inline constexpr auto codes = input<"codes", u8>(batch, key_head, key, value_depth);
inline constexpr auto dequantised = softmax(scores) * values(as_real(codes(b, h, kv_idx, d_idx)) * slopes(h));
inline constexpr auto key_codes = input<"key_codes", i8>(batch, key_head, key, depth);
inline constexpr auto quantised_queries = quantized<u8>(softmax(queries(quantized<i8>(rms_norm(q, gain, 1e-6))) *
                                                                t(keys(key_codes(b, h, kv_idx, d_idx) * slopes(h))))) *
                                          values(as_real(codes(b, h, kv_idx, d_idx) - 128) * slopes(h));
inline constexpr auto quantised_blocks =
    softmax(queries(quantized<i8>(q)) * t(keys(quantized<i8, 64>(smoothed(k)))) + mean_score(q, k), slopes(h)) *
    values(quantized<i8, 16>(v));
inline constexpr auto local_kv = input<"local_kv", f32>(batch, key_head, axis<"local">, depth);
inline constexpr auto sparse_kv = input<"sparse_kv", f32>(batch, key_head, axis<"sparse">, depth);
inline constexpr auto chosen = where(kv_idx < extent<2>(local_kv), local_kv(b, 0, kv_idx, d_idx),
                                     sparse_kv(b, 0, kv_idx - extent<2>(local_kv), d_idx));
inline constexpr auto selected = softmax(q * t(keys(chosen, extent<2>(local_kv) + extent<2>(sparse_kv)))) *
                                 values(chosen, extent<2>(local_kv) + extent<2>(sparse_kv));

// Statistics, weights, rows and outputs as numbers, every kind of output.
inline constexpr auto sinks = input<"sinks", f32>(head);
inline constexpr auto keep = input<"keep", boolean>(batch, head, query, key);
inline constexpr auto sunk =
    outputs(out = softmax(mask(scores, causal), sinks(h)) * v, lse = log_sum_exp(mask(scores, causal), sinks(h)));
inline constexpr auto plus_one = softmax_plus_one(scores) * v;
inline constexpr auto dropped = where(keep(b, h, q_idx, kv_idx), softmax(scores), 0) * (1 / (1 - cap)) / 2 * v;
inline constexpr auto sigmoid_attention = unnormalized(mask(sigmoid(scores), causal)) * v;
inline constexpr auto rectified = unnormalized(max(scores, 0)) * v / (1 + row_sum(unnormalized(max(scores, 0))));
inline constexpr auto everything =
    outputs(out = where(row_maximum(shared) > cap, softmax(shared) * v, 0) * gain(d_idx),
            lse = log_sum_exp(shared) / 0.6931471805599453, output<"maximum"> = row_maximum(shared),
            output<"raw"> = scores, output<"modified"> = shared, output<"weights"> = softmax(shared),
            output<"received"> = sum_over_queries(softmax(shared)), output<"mean"> = mean_over_heads(softmax(shared)),
            output<"other"> = max(as_output(slopes(h) * d_idx), as_row(q_idx)));
inline constexpr auto out_a = input<"out_a", f32>(batch, head, query, value_depth);
inline constexpr auto out_b = input<"out_b", f32>(batch, head, query, value_depth);
inline constexpr auto lse_a = input<"lse_a", f32>(batch, head, query);
inline constexpr auto lse_b = input<"lse_b", f32>(batch, head, query);
inline constexpr auto both_states =
    merge(state(out_a(b, h, q_idx, d_idx), lse_a(b, h, q_idx)), state(out_b(b, h, q_idx, d_idx), lse_b(b, h, q_idx)));
inline constexpr auto merged = outputs(out = both_states.out, lse = both_states.lse);
inline constexpr auto appended_state =
    merge(state(out_a(b, h, q_idx, d_idx), lse_a(b, h, q_idx)), state(softmax(shared) * v, log_sum_exp(shared)));
inline constexpr auto appended = outputs(out = appended_state.out, lse = appended_state.lse);

inline constexpr auto sloped = mask(scores + slopes(h) * (kv_idx - q_idx), causal);
inline constexpr auto trained = gradient(outputs(out = softmax(sloped) * v, lse = log_sum_exp(sloped)), of(out, lse));

// A function of projected queries, and an output projection.
inline constexpr auto projecting = input<"projecting", f32>(depth, axis<"in">);
inline constexpr auto projected_scores =
    queries(tanh(sum(bound_index<"in">, extent<1>(projecting),
                     q(b, h, q_idx, bound_index<"in">) * projecting(d_idx, bound_index<"in">)))) *
    t(k);
inline constexpr auto projected_back = softmax(projected_scores) * v;
inline constexpr auto trained_layer =
    gradient(outputs(out = linear(merge_heads(projected_back), input<"back", f32>(axis<"out">, axis<"in">),
                                  input<"shift", f32>(axis<"out">)),
                     output<"attended"> = projected_back, lse = log_sum_exp(projected_scores)));

inline constexpr auto up_to_the_last = mask(scores + table(h, max(kv_idx - q_idx, 0)), causal_bottom_right);
inline constexpr auto sharded =
    shard(outputs(out = softmax(up_to_the_last, slopes(h)) * v, lse = log_sum_exp(up_to_the_last, slopes(h)),
                  output<"top"> = row_maximum(up_to_the_last)));

// Names that are words of the language, or of C++.
inline constexpr auto mask_input = input<"mask", boolean>(query, key);
inline constexpr auto named_like_words =
    softmax(mask(scores,
                 mask_input(q_idx, kv_idx) && any(bound_index<"h">, 2, bound_index<"h"> < scalar<"default", i32>))) *
    v;

// Stores.
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto v_new = input<"v_new", f32>(batch, key_head, query, value_depth);
inline constexpr auto k_pages = input<"k_pages", i8>(axis<"page">, key_head, axis<"token">, depth);
inline constexpr auto page_of = input<"page_of", i32>(batch, axis<"block">);
inline constexpr auto largest_key = largest(n, depth, abs(k_new(b, h, q_idx, n)));
inline constexpr auto stepped = outputs(
    store(k_pages(page_of(b, new_kv_idx / 64), h, new_kv_idx % 64, d_idx),
          clamp(as_integer(round(k_new(b, h, q_idx, d_idx) * (127 / largest_key))), -127, 127)),
    store(v(b, h, new_kv_idx, d_idx), v_new(b, h, q_idx, d_idx)),
    out = softmax(mask(
              q * t(keys(as_real(k_pages(page_of(b, kv_idx / 64), h, kv_idx % 64, d_idx)), extent<1>(page_of) * 64)),
              causal_bottom_right)) *
          v);

// Several softmaxes, whose scores share k.
inline constexpr auto other_q = input<"other_q", f32>(batch, head, query, depth);
inline constexpr auto lambda = input<"lambda", f32>(head);
inline constexpr auto differential =
    softmax(mask(scores, causal)) * v - lambda(h) * (softmax(mask(other_q * t(k) * rsqrt(depth), causal)) * v);

// What is computed before the first score.
inline constexpr auto key_block = bound_index<"key_block">;
inline constexpr auto row = bound_index<"row">;
inline constexpr auto channel = bound_index<"channel">;
inline constexpr auto largest_in_block =
    precomputed(largest(row, 64, k(b, h, key_block * 64 + row, channel)), key_block, key_length / 64, channel, depth);
inline constexpr auto block_scores = precomputed(
    sum(channel, depth, q(b, h, 0, channel) * largest_in_block(b, h, key_block, channel)), key_block, key_length / 64);
inline constexpr auto chosen_blocks =
    softmax(mask(scores, top_k(block_scores, w)(b, h, kv_idx / 64) || top_p(block_scores, 0.5)(b, h, kv_idx / 64))) * v;

// Recurrences.
inline constexpr auto q_row = input<"q_row", f32>(batch, key_head, query, depth);
inline constexpr auto k_row = input<"k_row", f32>(batch, key_head, query, depth);
inline constexpr auto v_row = input<"v_row", f32>(batch, head, query, value_depth);
inline constexpr auto decay_row = input<"decay_row", f32>(batch, head, query, depth);
inline constexpr auto pool = input<"pool", f32>(axis<"slot">, head, depth, value_depth);
inline constexpr auto slot_of = input<"slot_of", i32>(batch);
inline constexpr auto step_size = input<"step_size", f32>(batch, head, query);
inline constexpr auto key_row = unit(k_row, 1e-6);
inline constexpr auto delta_states = recurrence(pool(slot_of(b), h, d_idx, value_idx), [](auto S) {
    const auto kept = exp(-step_size(b, h, q_idx)) * S;
    return kept + t(key_row) * (sigmoid(step_size(b, h, q_idx)) * (v_row - key_row * kept));
});
inline constexpr auto gated_delta =
    outputs(out = unit(q_row, 1e-6) * delta_states * rsqrt(depth), output<"state"> = last(delta_states));
inline constexpr auto retained = q_row * recurrence([](auto S) { return (1 - exp2(-5.0 - h)) * S + t(k_row) * v_row; });
inline constexpr auto two_pairs = recurrence(
    [](auto S) { return decay_row(b, h, q_idx, d_idx) * S + t(k_row) * v_row - t(decay_row) * (decay_row * S); });
inline constexpr auto before_token = outputs(out = q_row * earlier(two_pairs), output<"states"> = two_pairs);
inline constexpr auto mixed = input<"mixed", f32>(batch, query, axis<"mixed_channel">);
inline constexpr auto taps = input<"taps", f32>(axis<"mixed_channel">, axis<"tap">);
inline constexpr auto mixed_before = input<"mixed_before", f32>(batch, axis<"row">, axis<"mixed_channel">);
inline constexpr auto convolved =
    outputs(out = tokens(silu(causal_convolution(mixed, taps, mixed_before)(d_idx)), extent<2>(mixed)),
            output<"newest_rows"> = newest(mixed, extent<1>(taps) - 1, mixed_before));

}  // namespace variants
