#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

/// A small decoder of text, a token a character, with weights that it makes from a seed: what an engine is built
/// around. It does all but the attention.
namespace serving {

inline constexpr int layers = 2, heads = 4, key_heads = 2, depth = 64, model = 128, inner = 256, vocabulary = 96;

/// Where a token stands: of which sequence, and how many are before it.
struct place {
    int sequence, position;
};

/// Takes rotated queries (token, head, depth), keys and values (token, key head, depth) of a layer, and writes
/// (token, head, depth).
using attention = std::function<void(int layer, std::span<const float> q, std::span<const float> k,
                                     std::span<const float> v, std::span<float> out)>;

class decoder {
public:
    explicit decoder(unsigned seed);

    /// Logits (token, vocabulary) of what follows each token.
    std::vector<float> operator()(std::span<const int> tokens, std::span<const place> places,
                                  const attention& attend) const;

private:
    struct layer {
        std::vector<float> q, k, v, out, up, down;
    };
    std::vector<float> embedding_;
    std::vector<layer> layers_;
};

/// A row as bytes of one scale, 1/127 of its largest element, which is returned.
float round_row(std::span<const float> row, std::int8_t* to);

/// A token, by a number from 0 to 1: the likelier, the more of these numbers are its own.
int sample(std::span<const float> logits, double drawn);

std::vector<int> tokens_of(const std::string& text);
std::string text_of(std::span<const int> tokens);

}  // namespace serving
