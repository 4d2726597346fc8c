#pragma once
#include <attune/dsl.hpp>
#include <attune/dsl/layers.hpp>

/// Variants that between them use what the language has beyond masks, score modifications and softmax.
namespace under_test {

using namespace attune::dsl;

inline constexpr auto drop = input<"drop", boolean>(batch, head, query, key);
inline constexpr auto gain = input<"gain", f32>(head, depth);
inline constexpr auto logit = input<"logit", f32>(head);
inline constexpr auto gate = input<"gate", f32>(batch, head, query, value_depth);
inline constexpr auto turns = input<"turns", f32>(position, depth);
inline constexpr auto near_q = input<"near_q", f32>(batch, head, query, axis<"part">);
inline constexpr auto near_k = input<"near_k", f32>(batch, key_head, key, axis<"part">);
inline constexpr auto part = bound_index<"part">;
inline constexpr auto local_kv = input<"local_kv", f32>(batch, key_head, axis<"local">, depth);
inline constexpr auto other_q = input<"other_q", f32>(batch, head, query, depth);
inline constexpr auto far_kv = input<"far_kv", f32>(batch, key_head, axis<"far">, depth);

inline constexpr auto weights_out = output<"weights">;
inline constexpr auto scores_out = output<"scores">;
inline constexpr auto raw_out = output<"raw">;
inline constexpr auto column_out = output<"column">;
inline constexpr auto mean_out = output<"mean">;
inline constexpr auto highest_out = output<"highest">;
inline constexpr auto sum_out = output<"sum">;
inline constexpr auto row_out = output<"row">;

inline constexpr auto s = q * t(k) * rsqrt(depth);
inline constexpr auto masked = mask(s, causal_bottom_right);

// Statistics.
inline constexpr auto with_sink =
    outputs(out = softmax(masked, logit(h)) * v, lse = log_sum_exp(masked, logit(h)), row_out = log_sum_exp(masked));
inline constexpr auto plus_one = outputs(out = softmax_plus_one(masked) * v, highest_out = row_maximum(masked));
inline constexpr auto sigmoid = outputs(out = unnormalized(mask(1.0 / (1.0 + exp(-s)), causal_bottom_right)) * v,
                                        highest_out = row_maximum(mask(1.0 / (1.0 + exp(-s)), causal_bottom_right)));
inline constexpr auto relu_normalised =
    (unnormalized(mask(max(s, 0.0), causal)) * v) / max(row_sum(unnormalized(mask(max(s, 0.0), causal))), 1e-6);
inline constexpr auto energies_only = outputs(highest_out = row_maximum(masked));

// Two softmaxes, each with its own mask.
inline constexpr auto noise = mask(other_q * t(k) * rsqrt(depth), window(20, 0));
inline constexpr auto differential =
    outputs(out = softmax(masked) * v - logit(h) * (softmax(noise) * v), lse = log_sum_exp(masked),
            highest_out = row_maximum(noise), sum_out = row_sum(where(kv_idx % 3 == 0, softmax(noise), 0.0)));

// Weights.
inline constexpr auto dropped =
    outputs(out = (softmax(masked, logit(h)) * where(drop(b, h, q_idx, kv_idx), 0.0, 1.25)) * v,
            lse = log_sum_exp(masked, logit(h)),
            sum_out = row_sum(softmax(masked, logit(h)) * where(drop(b, h, q_idx, kv_idx), 0.0, 1.25)));
inline constexpr auto kept_near =
    outputs(out = where(q_idx - kv_idx < 9, softmax(masked), 0.0) * v, sum_out = row_sum(softmax(masked)));

// Rows and outputs as numbers.
inline constexpr auto gated =
    outputs(out = softmax(masked) * v * as_output(gate(b, h, q_idx, d_idx)) / (1.0 + exp(log_sum_exp(masked))),
            lse = log_sum_exp(masked) / 0.69314718056);
inline constexpr auto out_a = input<"out_a", f32>(batch, head, query, value_depth);
inline constexpr auto out_b = input<"out_b", f32>(batch, head, query, value_depth);
inline constexpr auto lse_a = input<"lse_a", f32>(batch, head, query);
inline constexpr auto lse_b = input<"lse_b", f32>(batch, head, query);
inline constexpr auto both =
    merge(state(out_a(b, h, q_idx, d_idx), lse_a(b, h, q_idx)), state(out_b(b, h, q_idx, d_idx), lse_b(b, h, q_idx)));
inline constexpr auto merged = outputs(out = both.out, lse = both.lse);

// Numbers that a seed decides.
inline constexpr auto drawn_weights = dropout(softmax(q * t(k) * rsqrt(depth)), 0.25, 987654321987);
inline constexpr auto drawn = outputs(out = drawn_weights * v, weights_out = drawn_weights);

// Formed tensors.
inline constexpr auto turn_q = queries(q(b, h, q_idx, d_idx) * turns(q_idx, d_idx / 2) +
                                       where(d_idx % 2 == 0, -q(b, h, q_idx, d_idx + 1), q(b, h, q_idx, d_idx - 1)) *
                                           turns(q_idx, depth / 2 + d_idx / 2));
inline constexpr auto turn_k = keys(k(b, h, kv_idx, d_idx) * turns(kv_idx, d_idx / 2) +
                                    where(d_idx % 2 == 0, -k(b, h, kv_idx, d_idx + 1), k(b, h, kv_idx, d_idx - 1)) *
                                        turns(kv_idx, depth / 2 + d_idx / 2));
inline constexpr auto rotary = softmax(mask(turn_q * t(turn_k) * rsqrt(depth), causal_bottom_right)) * v;
inline constexpr auto norm_k =
    keys(k(b, h, kv_idx, d_idx) * gain(h, d_idx) *
         rsqrt(sum(part, depth, k(b, h, kv_idx, part) * k(b, h, kv_idx, part)) / depth + 1e-6));
inline constexpr auto normed = outputs(out = softmax(q * t(norm_k)) * values(v(b, h, kv_idx, d_idx) * 2.0 + 1.0),
                                       lse = log_sum_exp(q * t(norm_k)));
inline constexpr auto joined = where(kv_idx < extent<2>(local_kv), local_kv(b, h, kv_idx, d_idx),
                                     far_kv(b, h, kv_idx - extent<2>(local_kv), d_idx));
inline constexpr auto both_lengths = extent<2>(local_kv) + extent<2>(far_kv);
inline constexpr auto two_caches =
    outputs(out = softmax(q * t(keys(joined, both_lengths)) * rsqrt(depth)) * values(joined, both_lengths),
            lse = log_sum_exp(q * t(keys(joined, both_lengths)) * rsqrt(depth)));

// A further contraction, and a sum that is none.
inline constexpr auto with_parts =
    masked + sum(part, extent<3>(near_q), near_q(b, h, q_idx, part) * near_k(b, h, kv_idx, part));
inline constexpr auto two_products =
    outputs(out = softmax(with_parts) * v, lse = log_sum_exp(with_parts), weights_out = softmax(with_parts));
inline constexpr auto with_distance =
    masked - sum(part, extent<3>(near_q), abs(near_q(b, h, q_idx, part) - near_k(b, h, kv_idx, part)));
inline constexpr auto distances = outputs(out = softmax(with_distance) * v, lse = log_sum_exp(with_distance));

// Every pair.
inline constexpr auto all_pairs = outputs(out = softmax(masked, logit(h)) * v, weights_out = softmax(masked, logit(h)),
                                          lse = log_sum_exp(masked, logit(h)), scores_out = masked,
                                          column_out = sum_over_queries(softmax(masked, logit(h))),
                                          mean_out = mean_over_heads(softmax(masked, logit(h))), raw_out = q * t(k));
inline constexpr auto only_scores = outputs(raw_out = q * t(k), scores_out = masked);
inline constexpr auto near = mask(s, window(20, 0));
inline constexpr auto window_pairs = outputs(weights_out = softmax(near), out = softmax(near) * v,
                                             mean_out = mean_over_heads(softmax(near)), lse = log_sum_exp(near));
inline constexpr auto relu_pairs = outputs(weights_out = unnormalized(mask(max(s, 0.0), causal)),
                                           column_out = sum_over_queries(unnormalized(mask(max(s, 0.0), causal))));

}  // namespace under_test
