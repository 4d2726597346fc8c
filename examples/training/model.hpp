#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

/// A causal language model of bytes: an embedding, layers of attention and a network of two matrices, each behind an
/// RMS norm and added to what came before, and the embedding again as the classifier. Everything but the attention is
/// plain loops, so that it can be read.
namespace training {

struct sizes {
    int layers = 2, channels = 64, heads = 2, key_heads = 1, depth = 32, inner = 128, length = 64, batch = 4;
    static constexpr int symbols = 256;
    int tokens() const { return batch * length; }
};

/// Numbers that are learned, by name, with the shape that a file gives them.
struct parameter {
    std::vector<std::int64_t> shape;
    std::vector<float> value, gradient, mean, square;  ///< the last two are Adam's
};
using parameters = std::map<std::string, parameter>;

parameters drawn(const sizes& s, unsigned seed);

class model {
public:
    model(const sizes& s, parameters& all) : s_(s), all_(all), layers_(static_cast<std::size_t>(s.layers)) {}

    /// The mean cross entropy of `next` after `text`, both (batch, length); leaves what `backward` needs.
    double loss(std::span<const std::uint8_t> text, std::span<const std::uint8_t> next);
    /// Adds nothing: writes every parameter's gradient, of the last loss.
    void backward();
    /// One step of Adam, the first being number 1.
    void step(int number, float rate);

private:
    using numbers = std::vector<float>;
    struct layer {
        numbers before, normed, q, k, v, out, lse, between, normed_again, inner, active;
    };

    numbers& value(const std::string& name) { return all_.at(name).value; }
    numbers& gradient(const std::string& name) { return all_.at(name).gradient; }
    void attend(layer& l, const std::string& name);
    void attend_backward(layer& l, const std::string& name, const numbers& dout, numbers& dnormed);
    void forward(layer& l, const std::string& name);
    void backward(layer& l, const std::string& name);

    const sizes s_;
    parameters& all_;
    std::vector<layer> layers_;
    std::vector<std::uint8_t> text_, next_;
    numbers x_, dx_, last_, normed_, chances_;  ///< x_: the stream that layers add to
};

}  // namespace training
