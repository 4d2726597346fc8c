#pragma once
#include "cache.hpp"
#include "steps.hpp"

#include <attune/runtime.hpp>

namespace language_model {

/// (sequence, key head, slot, depth) of each layer, in f32 or bf16.
template <class Element> class contiguous_cache final : public cache {
public:
    contiguous_cache(const sizes& model, std::int64_t sequences, std::int64_t slots)
        : cache(model, sequences, slots), layers_(static_cast<std::size_t>(model.layers)) {
        const auto size = static_cast<std::size_t>(sequences * model.key_heads * slots * model.depth);
        for (auto& each : layers_) each.keys.resize(size), each.values.resize(size);
    }

    void attend(std::int64_t layer, const attention& of, const step& s, projected& rows) override {
        using attune::tensor, attune::dsl::q, attune::dsl::k, attune::dsl::v, attune::dsl::out, attune::dsl::kv_lengths,
            attune::dsl::cu_seqlens_q;
        const auto count = static_cast<std::int64_t>(s.lengths.size()),
                   tokens = static_cast<std::int64_t>(s.tokens.size());
        const auto packed = [&](std::vector<float>& x, std::int64_t heads) {  // stored (token, head, depth)
            return tensor(x.data(), {1, tokens, heads, model_.depth}).swapped(1, 2);
        };
        const auto cached = [&](std::vector<Element>& x) {
            return tensor(x.data(), {count, model_.key_heads, slots, model_.depth});
        };
        const auto table = [&](const std::vector<float>& x) { return tensor(x.data(), {slots, model_.depth / 2}); };
        const rotation& turn = of.local ? local_turns_ : turns_;
        auto& [keys, values] = layers_[static_cast<std::size_t>(layer)];
        const auto call = [&]<const auto & graph>(const auto&... own) {
            attune::run<graph>(q = packed(rows.q, model_.heads), steps::k_new = packed(rows.k, model_.key_heads),
                               steps::v_new = packed(rows.v, model_.key_heads), k = cached(keys), v = cached(values),
                               steps::cosines = table(turn.cosines), steps::sines = table(turn.sines),
                               out = packed(rows.out, model_.heads), kv_lengths = tensor(s.lengths.data(), {count}),
                               cu_seqlens_q = tensor(s.starts.data(), {count + 1}), own...);
        };
        if (model_.gemma)
            call.template operator()<steps::gemma>(steps::q_gain = tensor(of.q_gain.data(), {model_.depth}),
                                                   steps::k_gain = tensor(of.k_gain.data(), {model_.depth}),
                                                   steps::reach = of.local ? model_.window - 1 : slots);
        else
            call.template operator()<steps::llama>();
    }
    std::size_t bytes() const override { return 2 * layers_.size() * layers_[0].keys.size() * sizeof(Element); }

private:
    struct pool {
        std::vector<Element> keys, values;
    };
    std::vector<pool> layers_;
};

}  // namespace language_model
