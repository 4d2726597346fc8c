#pragma once
#include <attune/dsl.hpp>

/// Every function of the language in few graphs: of scores, of numbers that are read, of rows, and in conditions.
namespace functions {

using namespace attune::dsl;

inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto by_key = input<"by_key", f32>(batch, key);
inline constexpr auto table = input<"table", f32>(head, axis<"entry">);
inline constexpr auto flags = input<"flags", boolean>(position);
inline constexpr auto scores = q * t(k) * rsqrt(depth);
inline constexpr auto read = by_key(b, kv_idx);

/// Each with a weight of its own, so that none stands for another.
inline constexpr auto turns = 0.11 * sin(scores * 5) + 0.13 * cos(scores * 7) + 0.07 * tan(tanh(scores)) +
                              0.17 * asin(tanh(scores) * 0.9) - 0.19 * acos(tanh(read) * 0.9) + 0.23 * atan(scores) +
                              0.29 * atan2(scores, slopes(h)) - 0.31 * atan2(slopes(h), read);
inline constexpr auto growth = 0.05 * sinh(scores) - 0.04 * cosh(read) + 0.06 * exp2(scores) - 0.08 * expm1(scores) +
                               0.12 * log1p(abs(scores)) - 0.14 * log2(abs(read) + 0.5) +
                               0.15 * pow(abs(scores) + 0.25, 1.5) - 0.01 * pow(2.0, read) + 0.02 * pow(scores, 2) +
                               0.03 * log(abs(read) + 1) * sqrt(abs(read)) * rsqrt(abs(scores) + 1);
inline constexpr auto rectified = 0.21 * sigmoid(scores) - 0.22 * silu(scores) + 0.24 * relu(scores) -
                                  0.26 * gelu(scores) + 0.27 * gelu_tanh(scores) - 0.28 * softplus(scores) +
                                  0.32 * logaddexp(scores, read) - 0.33 * clamp(scores, -0.5, 0.75) + 0.34 * sign(read);
inline constexpr auto whole = 0.35 * floor(read * 3) - 0.36 * ceil(read * 5) + 0.37 * round(read * 2) -
                              0.38 * trunc(read * 4) + 0.39 * fmod(read * 9, 0.75) + 0.41 * floor_div(read, 0.5) +
                              0.01 * floor_div(kv_idx, 7) + table(h, clamp(as_integer(scores * 3), -4, 4) + 4);
inline constexpr auto bent = mask(0.5 * turns + growth, causal_bottom_right);
inline constexpr auto of_scores = outputs(out = softmax(bent) * v, output<"scores"> = bent);
inline constexpr auto stepped = mask(rectified + 0.2 * whole, causal_bottom_right);
inline constexpr auto of_steps = outputs(out = softmax(stepped) * v, output<"scores"> = stepped);
inline constexpr auto plain = mask(scores, causal_bottom_right);
inline constexpr auto of_rows =
    outputs(out = softmax(plain) * v * sigmoid(log_sum_exp(plain)), lse = logaddexp(log_sum_exp(plain), slopes(h)),
            output<"row"> = sin(log_sum_exp(plain)) + floor(slopes(h) * 3) + softplus(row_maximum(plain)));

/// Functions of masked pairs, as PyTorch's of -infinity.
inline constexpr auto hidden = mask(scores, kv_idx % 3 != 1 || q_idx % 4 == 2);
inline constexpr auto limits = exp2(hidden) + 0.5 * sigmoid(hidden) + expm1(hidden) + 2 + softplus(hidden) +
                               relu(hidden) + clamp(hidden, -3, 3) + atan(hidden) + sign(hidden) +
                               logaddexp(hidden, read) + where(isinf(hidden), 0.25, 0.0) +
                               where(isfinite(hidden), 0.125, 0.0) + where(isnan(hidden), 100.0, 0.0) +
                               where(isinf(silu(hidden) + floor(hidden) + pow(hidden, 2)), 0.5, 0.0);
inline constexpr auto of_masked = outputs(out = unnormalized(0.01 * limits) * v);

/// Conditions joined in every way, and bounded over blocks.
inline constexpr auto near = exp2(-0.05 * abs(q_idx - kv_idx)) > 0.125;
inline constexpr auto by_step = floor(as_real(kv_idx) / 16) <= floor(as_real(q_idx) / 16);
inline constexpr auto visible = ((near & by_step) | ~(kv_idx > 3)) ^ (flags(q_idx) == flags(kv_idx) && near != by_step);
inline constexpr auto by_conditions =
    mask(scores, visible && !isnan(read) && isfinite(read) && (~kv_idx & 1) == (kv_idx + 1) % 2);
inline constexpr auto of_conditions = outputs(out = softmax(by_conditions) * v, lse = log_sum_exp(by_conditions));

}  // namespace functions
