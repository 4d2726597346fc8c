#pragma once
#include "layer_call.hpp"

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
        using attune::dsl::k, attune::dsl::v;
        const auto cached = [&](std::vector<Element>& x) {
            return attune::tensor(x.data(), {sequences, model_.key_heads, slots, model_.depth});
        };
        auto& [keys, values] = layers_[static_cast<std::size_t>(layer)];
        call_layer<steps::llama, steps::gemma>(of, s, rows, k = cached(keys), v = cached(values));
    }
    std::size_t bytes() const override { return 2 * layers_.size() * layers_[0].keys.size() * sizeof(Element); }

private:
    struct pool {
        std::vector<Element> keys, values;
    };
    std::vector<pool> layers_;
};

}  // namespace language_model
