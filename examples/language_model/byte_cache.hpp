#pragma once
#include "cache.hpp"
#include "steps.hpp"

#include <attune/runtime.hpp>

namespace language_model {

/// Codes of eight bits (sequence, key head, slot, depth) of each layer, and a scale a row.
class byte_cache final : public cache {
public:
    byte_cache(const sizes& model, std::int64_t sequences, std::int64_t slots)
        : cache(model, sequences, slots), layers_(static_cast<std::size_t>(model.layers)) {
        const auto rows = static_cast<std::size_t>(sequences * model.key_heads * slots);
        const codes empty{std::vector<std::int8_t>(rows * static_cast<std::size_t>(model.depth)),
                          std::vector<float>(rows)};
        for (auto& each : layers_) each.keys = empty, each.values = empty;
    }

    void attend(std::int64_t layer, const attention& of, const step& s, projected& rows) override {
        using attune::tensor, attune::dsl::q, attune::dsl::out, attune::dsl::kv_lengths, attune::dsl::cu_seqlens_q;
        const auto count = static_cast<std::int64_t>(s.lengths.size()),
                   tokens = static_cast<std::int64_t>(s.tokens.size());
        const auto packed = [&](std::vector<float>& x, std::int64_t heads) {  // stored (token, head, depth)
            return tensor(x.data(), {1, tokens, heads, model_.depth}).swapped(1, 2);
        };
        const auto cached = [&](codes& x) {
            return tensor(x.rows.data(), {count, model_.key_heads, slots, model_.depth});
        };
        const auto scales = [&](codes& x) { return tensor(x.scales.data(), {count, model_.key_heads, slots}); };
        const auto table = [&](const std::vector<float>& x) { return tensor(x.data(), {slots, model_.depth / 2}); };
        const rotation& turn = of.local ? local_turns_ : turns_;
        auto& [keys, values] = layers_[static_cast<std::size_t>(layer)];
        const auto call = [&]<const auto & graph>(const auto&... own) {
            attune::run<graph>(q = packed(rows.q, model_.heads), steps::k_new = packed(rows.k, model_.key_heads),
                               steps::v_new = packed(rows.v, model_.key_heads), steps::k8 = cached(keys),
                               steps::v8 = cached(values), steps::k_scale = scales(keys),
                               steps::v_scale = scales(values), steps::cosines = table(turn.cosines),
                               steps::sines = table(turn.sines), out = packed(rows.out, model_.heads),
                               kv_lengths = tensor(s.lengths.data(), {count}),
                               cu_seqlens_q = tensor(s.starts.data(), {count + 1}), own...);
        };
        if (model_.gemma)
            call.template operator()<steps::gemma_bytes>(steps::q_gain = tensor(of.q_gain.data(), {model_.depth}),
                                                         steps::k_gain = tensor(of.k_gain.data(), {model_.depth}),
                                                         steps::reach = of.local ? model_.window - 1 : slots);
        else
            call.template operator()<steps::llama_bytes>();
    }
    std::size_t bytes() const override {
        return 2 * layers_.size() * (layers_[0].keys.rows.size() + 4 * layers_[0].keys.scales.size());
    }

private:
    struct codes {
        std::vector<std::int8_t> rows;
        std::vector<float> scales;
    };
    struct pool {
        codes keys, values;
    };
    std::vector<pool> layers_;
};

}  // namespace language_model
