#pragma once
#include "layer_call.hpp"

namespace language_model {

/// Pages (page, key head, token, depth) of each layer in bf16. All sequences take theirs from one pool, when a token
/// comes to the first slot of one.
class page_cache final : public cache {
public:
    page_cache(const sizes& model, std::int64_t sequences, std::int64_t slots)
        : cache(model, sequences, (slots + steps::page_tokens - 1) / steps::page_tokens * steps::page_tokens),
          blocks_(this->slots / steps::page_tokens),
          layers_(static_cast<std::size_t>(model.layers)),
          table_(static_cast<std::size_t>(sequences * blocks_), -1) {
        const auto size = table_.size() * static_cast<std::size_t>(model.key_heads * steps::page_tokens * model.depth);
        for (auto& each : layers_) each.keys.resize(size), each.values.resize(size);
    }

    void attend(std::int64_t layer, const attention& of, const step& s, projected& rows) override {
        using attune::tensor;
        take_pages(s);
        const auto pages = static_cast<std::int64_t>(table_.size());
        const auto cached = [&](std::vector<attune::bfloat16>& x) {
            return tensor(x.data(), {pages, model_.key_heads, steps::page_tokens, model_.depth});
        };
        auto& [keys, values] = layers_[static_cast<std::size_t>(layer)];
        call_layer<steps::llama_pages, steps::gemma_pages>(
            of, s, rows, steps::k_pages = cached(keys), steps::v_pages = cached(values),
            steps::block_table = tensor(table_.data(), {sequences, blocks_}));
    }
    std::size_t bytes() const override {
        return 2 * layers_.size() * layers_[0].keys.size() * sizeof(attune::bfloat16);
    }

private:
    void take_pages(const step& s) {
        for (std::size_t sequence = 0; sequence < s.lengths.size(); ++sequence)
            for (std::int64_t block = 0; block * steps::page_tokens < s.lengths[sequence]; ++block) {
                auto& page = table_[sequence * static_cast<std::size_t>(blocks_) + static_cast<std::size_t>(block)];
                if (page < 0) page = taken_++;
            }
    }
    struct pool {
        std::vector<attune::bfloat16> keys, values;
    };
    std::int64_t blocks_;
    std::vector<pool> layers_;
    std::vector<std::int32_t> table_;  ///< (sequence, block); -1: none yet
    std::int32_t taken_ = 0;
};

}  // namespace language_model
