#pragma once
#include <attune/dsl.hpp>
#include <attune/dsl/recurrent.hpp>

/// The states of the field's recurrences after each token, which a row of queries reads: `q * retention(0, k, v)`. k
/// and v are rows of new tokens, `before` the states before the first one, 0 for none; decays and steps are reals.
/// Included by itself.
namespace attune::catalogue {

using namespace dsl;

/// S + k^T v. (Katharopoulos et al. 2020)
template <class Before, class K, class V> constexpr auto linear_attention(Before before, K k, V v) {
    return recurrence(before, [=](auto S) { return S + t(k) * v; });
}

/// z + k, in every value channel: what linear attention is divided by, `q * linear_attention(...) / (q *
/// sum_of_keys(...))`. (Katharopoulos et al. 2020)
template <class Before, class K> constexpr auto sum_of_keys(Before before, K k) {
    return recurrence(before, [=](auto S) { return S + t(k) * 1.0; });
}

/// (1 - 2^(-5 - h)) S + k^T v. (RetNet, Sun et al. 2023)
template <class Before, class K, class V> constexpr auto retention(Before before, K k, V v) {
    return recurrence(before, [=](auto S) { return (1 - exp2(-5.0 - h)) * S + t(k) * v; });
}

/// exp(log_decay) S + k^T v: lightning attention with -slope[h], GLA and RWKV-6 with a number for each channel. (Qin et
/// al. 2024; Yang et al. 2023; Peng et al. 2024)
template <class Before, class K, class V, class G>
constexpr auto gated_linear_attention(Before before, K k, V v, G log_decay) {
    return recurrence(before, [=](auto S) { return exp(log_decay) * S + t(k) * v; });
}

/// exp(-exp(a_log[h]) dt) S + k^T (dt x). (Mamba-2, Dao and Gu 2024)
template <class Before, class K, class X, class Dt, class A>
constexpr auto state_space(Before before, K k, X x, Dt dt, A a_log) {
    return recurrence(before,
                      [=](auto S) { return exp(-exp(a_log(h)) * dt) * S + t(k) * (dt * x(b, h, q_idx, d_idx)); });
}

/// S + beta k^T (v - k S). (DeltaNet, Schlag et al. 2021)
template <class Before, class K, class V, class Beta> constexpr auto delta_rule(Before before, K k, V v, Beta beta) {
    return recurrence(before, [=](auto S) { return S + t(k) * (beta * (v - k * S)); });
}

/// S' + beta k^T (v - k S'), S' = exp(log_decay) S: with a number for each channel, Kimi delta attention. (Yang et al.
/// 2024; Kimi Linear 2025)
template <class Before, class K, class V, class G, class Beta>
constexpr auto gated_delta_rule(Before before, K k, V v, G log_decay, Beta beta) {
    return recurrence(before, [=](auto S) {
        const auto kept = exp(log_decay) * S;
        return kept + t(k) * (beta * (v - k * kept));
    });
}

/// exp(log_decay) S + k^T v - (rate kappa)^T (kappa S). (RWKV-7, Peng et al. 2025)
template <class Before, class K, class V, class G, class Kappa, class Rate>
constexpr auto rwkv7(Before before, K k, V v, G log_decay, Kappa kappa, Rate rate) {
    return recurrence(before, [=](auto S) {
        return exp(log_decay) * S + t(k) * v -
               t(queries(rate(b, h, q_idx, d_idx) * kappa(b, h, q_idx, d_idx))) * (kappa * S);
    });
}

}  // namespace attune::catalogue
