#pragma once
#include "sizes.hpp"

#include <memory>

namespace language_model {

/// New tokens of all sequences, one sequence after another.
struct step {
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> starts{0};  ///< sequence s has the tokens from starts[s] to starts[s + 1]
    std::vector<std::int32_t> lengths;    ///< of each sequence, with these tokens

    /// Where each sequence's tokens are a tree of drafts; else empty.
    std::vector<std::int32_t> levels;  ///< (token): how far behind the root
    std::vector<std::uint8_t> above;   ///< (token, draft): whether it sees that draft of its sequence
    std::int64_t most_drafts = 0;      ///< of a sequence
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
    /// Copies a token's keys and values of all layers to another slot of its sequence: a draft that was accepted.
    virtual void move(std::int64_t sequence, std::int64_t from, std::int64_t to) = 0;
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
    const sizes model_;
    const rotation turns_, local_turns_;
};

/// One of f32, bf16, i8 and pages. Throws std::invalid_argument for another.
std::unique_ptr<cache> make_cache(const std::string& kind, const sizes& model, std::int64_t sequences,
                                  std::int64_t slots);

}  // namespace language_model
