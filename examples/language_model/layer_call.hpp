#pragma once
#include "cache.hpp"
#include "steps.hpp"

#include <attune/runtime.hpp>

namespace language_model {

template <const auto& Llama, const auto& Gemma>
void cache::call_layer(const attention& of, const step& s, projected& rows, const auto&... cached) const {
    using attune::tensor, attune::dsl::q, attune::dsl::out, attune::dsl::kv_lengths, attune::dsl::cu_seqlens_q;
    const auto count = static_cast<std::int64_t>(s.lengths.size()), tokens = static_cast<std::int64_t>(s.tokens.size());
    const auto packed = [&](std::vector<float>& x, std::int64_t heads) {  // stored (token, head, depth)
        return tensor(x.data(), {1, tokens, heads, model_.depth}).swapped(1, 2);
    };
    const auto table = [&](const std::vector<float>& x) { return tensor(x.data(), {slots, model_.depth / 2}); };
    const rotation& turn = of.local ? local_turns_ : turns_;
    const auto call = [&]<const auto & graph>(const auto&... own) {
        attune::run<graph>(q = packed(rows.q, model_.heads), steps::k_new = packed(rows.k, model_.key_heads),
                           steps::v_new = packed(rows.v, model_.key_heads), steps::cosines = table(turn.cosines),
                           steps::sines = table(turn.sines), out = packed(rows.out, model_.heads),
                           kv_lengths = tensor(s.lengths.data(), {count}),
                           cu_seqlens_q = tensor(s.starts.data(), {count + 1}), cached..., own...);
    };
    if (model_.gemma)
        call.template operator()<Gemma>(steps::q_gain = tensor(of.q_gain.data(), {model_.depth}),
                                        steps::k_gain = tensor(of.k_gain.data(), {model_.depth}),
                                        steps::reach = of.local ? model_.window - 1 : slots);
    else
        call.template operator()<Llama>();
}

}  // namespace language_model
