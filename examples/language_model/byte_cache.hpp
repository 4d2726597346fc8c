#pragma once
#include "layer_call.hpp"

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
        using attune::tensor;
        const auto cached = [&](codes& x) {
            return tensor(x.rows.data(), {sequences, model_.key_heads, slots, model_.depth});
        };
        const auto scales = [&](codes& x) { return tensor(x.scales.data(), {sequences, model_.key_heads, slots}); };
        auto& [keys, values] = layers_[static_cast<std::size_t>(layer)];
        call_layer<steps::llama_bytes, steps::gemma_bytes>(of, s, rows, steps::k8 = cached(keys),
                                                           steps::v8 = cached(values), steps::k_scale = scales(keys),
                                                           steps::v_scale = scales(values));
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
