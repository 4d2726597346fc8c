#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// The language model of examples/training, a token a byte: what an engine is built around. It does all but the
/// attention.
namespace serving {

inline constexpr int layers = 2, heads = 2, key_heads = 1, depth = 32, model = 64, inner = 128, vocabulary = 256;

/// By the names that training saves them by.
using weights = std::map<std::string, std::vector<float>>;

weights drawn(unsigned seed);
/// What `training --save` wrote. Throws std::runtime_error, with the file's name, if weights of this model are not in
/// it.
weights read(const std::string& file);

/// Takes queries (token, head, depth), keys and values (token, key head, depth) of a layer, and writes
/// (token, head, depth).
using attention = std::function<void(int layer, std::span<const float> q, std::span<const float> k,
                                     std::span<const float> v, std::span<float> out)>;

class decoder {
public:
    explicit decoder(weights all) : all_(std::move(all)) {}

    /// Logits (token, vocabulary) of what follows each token.
    std::vector<float> operator()(std::span<const int> tokens, const attention& attend) const;
    /// What a layer's scores lose with each token between a query and a key, a number a head.
    const std::vector<float>& slopes(int layer) const { return of(layer, "slopes"); }

private:
    const std::vector<float>& of(int layer, const std::string& name) const {
        return all_.at("layer" + std::to_string(layer) + "." + name);
    }
    weights all_;
};

/// A row as bytes of one scale, 1/127 of its largest element, which is returned.
float round_row(std::span<const float> row, std::int8_t* to);

/// A token, by a number from 0 to 1: the likelier, the more of these numbers are its own.
int sample(std::span<const float> logits, double drawn);

std::vector<int> tokens_of(const std::string& text);
std::string text_of(std::span<const int> tokens);  ///< what cannot be printed as a space

}  // namespace serving
