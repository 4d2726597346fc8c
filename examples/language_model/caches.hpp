#pragma once
#include "cache.hpp"
#include "steps.hpp"

#include <attune/runtime.hpp>

#include <algorithm>

namespace language_model {

/// A cache whose layer is a call of one of a form's formulas: all forms pass the same, but for where keys and values
/// are, which `cached` names.
template <const auto& Llama, const auto& Gemma, const auto& LlamaTree, const auto& GemmaTree>
class cache_of : public cache {
protected:
    using cache::cache;

    void call(const attention& of, const step& s, projected& rows, const auto&... cached) const {
        using attune::tensor, attune::dsl::q, attune::dsl::out, attune::dsl::kv_lengths, attune::dsl::cu_seqlens_q;
        const auto tokens = static_cast<std::int64_t>(s.tokens.size());
        const auto packed = [&](std::vector<float>& x, std::int64_t heads) {  // stored (token, head, depth)
            return tensor(x.data(), {1, tokens, heads, model_.depth}).swapped(1, 2);
        };
        const auto table = [&](const std::vector<float>& x) { return tensor(x.data(), {slots, model_.depth / 2}); };
        const rotation& turn = of.local ? local_turns_ : turns_;
        const auto run = [&]<const auto & graph>(const auto&... own) {
            attune::run<graph>(q = packed(rows.q, model_.heads), steps::k_new = packed(rows.k, model_.key_heads),
                               steps::v_new = packed(rows.v, model_.key_heads), steps::cosines = table(turn.cosines),
                               steps::sines = table(turn.sines), out = packed(rows.out, model_.heads),
                               kv_lengths = tensor(s.lengths.data(), {sequences}),
                               cu_seqlens_q = tensor(s.starts.data(), {sequences + 1}), cached..., own...);
        };
        const auto run_in_order = [&]<const auto & row, const auto & tree>(const auto&... own) {
            if (s.levels.empty()) return run.template operator()<row>(own...);
            const auto* const above = reinterpret_cast<const bool*>(s.above.data());
            run.template operator()<tree>(own..., steps::level = tensor(s.levels.data(), {1, tokens}),
                                          steps::above = tensor(above, {1, tokens, s.most_drafts}));
        };
        if (!model_.gemma) return run_in_order.template operator()<Llama, LlamaTree>();
        run_in_order.template operator()<Gemma, GemmaTree>(steps::q_gain = tensor(of.q_gain.data(), {model_.depth}),
                                                           steps::k_gain = tensor(of.k_gain.data(), {model_.depth}),
                                                           steps::reach = of.local ? model_.window - 1 : slots);
    }

    /// Of (sequence, key head, slot, ..): the row of a slot to another, `width` elements each.
    void move_rows(auto& of, std::int64_t width, std::int64_t sequence, std::int64_t from, std::int64_t to) const {
        for (std::int64_t head = 0; head < model_.key_heads; ++head) {
            const auto begin = of.begin() + (sequence * model_.key_heads + head) * slots * width;
            std::copy_n(begin + from * width, width, begin + to * width);
        }
    }
};

/// (sequence, key head, slot, depth) of each layer, in f32 or bf16.
template <class Element>
class contiguous_cache final : public cache_of<steps::llama, steps::gemma, steps::llama_tree, steps::gemma_tree> {
public:
    contiguous_cache(const sizes& model, std::int64_t sequences, std::int64_t slots)
        : cache_of(model, sequences, slots), layers_(static_cast<std::size_t>(model.layers)) {
        const auto size = static_cast<std::size_t>(sequences * model.key_heads * slots * model.depth);
        for (auto& each : layers_) each.keys.resize(size), each.values.resize(size);
    }

    void attend(std::int64_t layer, const attention& of, const step& s, projected& rows) override {
        const auto cached = [&](std::vector<Element>& x) {
            return attune::tensor(x.data(), {sequences, model_.key_heads, slots, model_.depth});
        };
        auto& [keys, values] = layers_[static_cast<std::size_t>(layer)];
        call(of, s, rows, attune::dsl::k = cached(keys), attune::dsl::v = cached(values));
    }
    void move(std::int64_t sequence, std::int64_t from, std::int64_t to) override {
        for (auto& each : layers_)
            for (auto* rows : {&each.keys, &each.values}) move_rows(*rows, model_.depth, sequence, from, to);
    }
    std::size_t bytes() const override { return 2 * layers_.size() * layers_[0].keys.size() * sizeof(Element); }

private:
    struct pool {
        std::vector<Element> keys, values;
    };
    std::vector<pool> layers_;
};

/// Codes of eight bits (sequence, key head, slot, depth) of each layer, and a scale a row.
class byte_cache final
    : public cache_of<steps::llama_bytes, steps::gemma_bytes, steps::llama_bytes_tree, steps::gemma_bytes_tree> {
public:
    byte_cache(const sizes& model, std::int64_t sequences, std::int64_t slots)
        : cache_of(model, sequences, slots), layers_(static_cast<std::size_t>(model.layers)) {
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
        call(of, s, rows, steps::k8 = cached(keys), steps::v8 = cached(values), steps::k_scale = scales(keys),
             steps::v_scale = scales(values));
    }
    void move(std::int64_t sequence, std::int64_t from, std::int64_t to) override {
        for (auto& each : layers_)
            for (codes* of : {&each.keys, &each.values}) {
                move_rows(of->rows, model_.depth, sequence, from, to);
                move_rows(of->scales, 1, sequence, from, to);
            }
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

/// Pages (page, key head, token, depth) of each layer in bf16. All sequences take theirs from one pool, when a token
/// comes to the first slot of one.
class page_cache final
    : public cache_of<steps::llama_pages, steps::gemma_pages, steps::llama_pages_tree, steps::gemma_pages_tree> {
public:
    page_cache(const sizes& model, std::int64_t sequences, std::int64_t slots)
        : cache_of(model, sequences, (slots + steps::page_tokens - 1) / steps::page_tokens * steps::page_tokens),
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
        call(of, s, rows, steps::k_pages = cached(keys), steps::v_pages = cached(values),
             steps::block_table = tensor(table_.data(), {sequences, blocks_}));
    }
    void move(std::int64_t sequence, std::int64_t from, std::int64_t to) override {
        const auto row = [&](std::int64_t slot, std::int64_t head) {
            const auto page = table_[static_cast<std::size_t>(sequence * blocks_ + slot / steps::page_tokens)];
            const auto token = (page * model_.key_heads + head) * steps::page_tokens + slot % steps::page_tokens;
            return token * model_.depth;
        };
        for (auto& each : layers_)
            for (auto* rows : {&each.keys, &each.values})
                for (std::int64_t head = 0; head < model_.key_heads; ++head)
                    std::copy_n(rows->begin() + row(from, head), model_.depth, rows->begin() + row(to, head));
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
