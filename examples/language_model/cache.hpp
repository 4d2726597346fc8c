#pragma once
#include "gguf.hpp"

#include <memory>

namespace language_model {

/// The sizes of a model, as its GGUF has them.
struct sizes {
    explicit sizes(const gguf& file);

    bool gemma;
    std::int64_t layers, width, inner, heads, key_heads, depth, vocabulary, longest, window;
    float epsilon;
    double base, local_base;  ///< of the rotations; a local layer's own
};

/// Tokens of all sequences, one sequence after another.
struct step {
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> starts;   ///< sequence s has the tokens from starts[s] to starts[s + 1]
    std::vector<std::int32_t> lengths;  ///< of each sequence, with these tokens
};

/// What a layer's attention has of its own.
struct attention {
    std::vector<float> q_gain, k_gain;  ///< Gemma's
    bool local = false;
};

/// What a layer's products made of the tokens, (token, head, depth), and where the output goes.
struct projected {
    std::vector<float> q, k, v, out;
};

/// Keys and values of some sequences: a call a layer stores those of new tokens, and attends.
class cache {
public:
    virtual ~cache() = default;
    virtual void attend(std::int64_t layer, const attention& of, const step& s, projected& rows) = 0;
    virtual std::size_t bytes() const = 0;

    const std::int64_t sequences, slots;  ///< slots a sequence
    double seconds = 0;                   ///< that calls of attend have taken; a model adds them up

protected:
    cache(const sizes& model, std::int64_t sequences, std::int64_t slots);

    /// cos and sin of position times frequency, (slot, pair).
    struct rotation {
        std::vector<float> cosines, sines;
        rotation(std::int64_t slots, std::int64_t depth, double base);
    };
    /// A layer's call, by the formula of its model: all caches pass the same but for where keys and values are, which
    /// `cached` names. Defined in layer_call.hpp.
    template <const auto& Llama, const auto& Gemma>
    void call_layer(const attention& of, const step& s, projected& rows, const auto&... cached) const;

    const sizes model_;
    const rotation turns_, local_turns_;
};

/// One of f32, bf16, i8 and pages. Throws std::invalid_argument for another.
std::unique_ptr<cache> make_cache(const std::string& kind, const sizes& model, std::int64_t sequences,
                                  std::int64_t slots);
/// Contiguous, in f32.
std::unique_ptr<cache> make_plain_cache(const sizes& model, std::int64_t sequences, std::int64_t slots);

}  // namespace language_model
