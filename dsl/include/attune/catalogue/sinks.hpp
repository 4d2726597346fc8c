#pragma once
#include <attune/dsl.hpp>

/// Softmax with other denominators; outputs beside attention's own.
namespace attune::catalogue {

using namespace dsl;

/// w = exp(s) / (sum exp(s) + exp(sink[h])). (Streaming LLM, Xiao et al. 2024; gpt-oss; attention-gym
/// selected_attention)
template <class Sinks> constexpr auto with_sink(expression auto s, Sinks sink) { return softmax(s, sink(h)) * v; }

/// w = exp(s) / (1 + sum exp(s)). (softmax1, Miller 2023)
constexpr auto with_plus_one(expression auto s) { return softmax_plus_one(s) * v; }

/// (w keep[b, h, q, k] / (1 - p)) V; 0 of p = 1. (dropout of the weights, by a mask of those that are kept)
template <class Keep> constexpr auto with_dropout(expression auto s, Keep keep, operand auto p) {
    return where(keep(b, h, q_idx, kv_idx), softmax(s), 0) / dsl::detail::share_kept(p) * v;
}

/// log sum exp(s) to the base 2. (FlashInfer)
constexpr auto log2_sum_exp(expression auto s) { return log_sum_exp(s) / 0.6931471805599453; }

/// Sum over the queries of the weights of a key: which keys to keep in a cache. (H2O, Zhang et al. 2023)
constexpr auto attention_received(expression auto s) { return sum_over_queries(softmax(s)); }

}  // namespace attune::catalogue
