#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// Language models of a token a byte, which an engine is built around: that of examples/training, and hybrids, three of
/// four layers of which carry a state. They do all but the attention and the recurrence.
namespace serving {

inline constexpr int heads = 2, key_heads = 1, depth = 32, model = 64, inner = 128, vocabulary = 256;
/// Of a layer with a state: taps of its convolution, heads, those that share queries and keys, and the channels of a
/// token's queries, keys and values, side by side.
inline constexpr int taps = 4, state_heads = 2, state_key_heads = 1,
                     mixed = (2 * state_key_heads + state_heads) * depth;

/// By the names that training saves them by.
using weights = std::map<std::string, std::vector<float>>;

/// Of a hybrid of four layers, the last of which attends. From seeds alone.
weights drawn(unsigned seed);
/// What `training --save` wrote. Throws std::runtime_error, with the file's name, if weights of this model are not in
/// it.
weights read(const std::string& file);

/// Takes queries (token, head, depth), keys and values (token, key head, depth) of a layer, and writes
/// (token, head, depth).
using attention = std::function<void(int layer, std::span<const float> q, std::span<const float> k,
                                     std::span<const float> v, std::span<float> out)>;
/// Rows (token, mixed), and what makes the decay and the step of each token, (token, state head).
struct state_rows {
    std::span<const float> mixed, decay, step;
};
/// Takes the rows of a layer with a state, and writes (token, state head, depth).
using recurrence = std::function<void(int layer, const state_rows& rows, std::span<float> out)>;

class decoder {
public:
    explicit decoder(weights all);

    /// Logits (token, vocabulary) of what follows each token.
    std::vector<float> operator()(std::span<const int> tokens, const attention& attend, const recurrence& recur) const;
    int layers() const { return layers_; }
    bool has_state(int layer) const { return all_.contains(name_of(layer, "taps")); }
    /// A layer's weights, such as its `slopes`, what scores lose with each token between a query and a key, or `taps`
    /// (mixed, taps), `a_log` and `dt_bias` (state head).
    const std::vector<float>& of(int layer, const std::string& name) const { return all_.at(name_of(layer, name)); }

private:
    static std::string name_of(int layer, const std::string& name) {
        return "layer" + std::to_string(layer) + "." + name;
    }
    void add_attention(int layer, std::span<const float> normed, const attention& attend, std::span<float> x) const;
    void add_recurrence(int layer, std::span<const float> normed, const recurrence& recur, std::span<float> x) const;

    weights all_;
    int layers_ = 0;
};

/// A row as bytes of one scale, 1/127 of its largest element, which is returned.
float round_row(std::span<const float> row, std::int8_t* to);

/// A token, by a number from 0 to 1: the likelier, the more of these numbers are its own.
int sample(std::span<const float> logits, double drawn);

std::vector<int> tokens_of(const std::string& text);
std::string text_of(std::span<const int> tokens);  ///< what cannot be printed as a space

}  // namespace serving
