#include "decoder.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>

namespace serving {
namespace {

std::vector<float> made(std::mt19937& random, std::size_t in, std::size_t out) {
    std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(in)));
    std::vector<float> weights(in * out);
    for (float& each : weights) each = normal(random);
    return weights;
}

/// to (row, out) += from (row, in) * weights (in, out)
void add_product(std::span<const float> from, std::span<const float> weights, std::size_t in, std::span<float> to) {
    const std::size_t out = weights.size() / in;
    for (std::size_t row = 0; row < from.size() / in; ++row)
        for (std::size_t i = 0; i < in; ++i)
            for (std::size_t o = 0; o < out; ++o) to[row * out + o] += from[row * in + i] * weights[i * out + o];
}

std::vector<float> product(std::span<const float> from, std::span<const float> weights, std::size_t in) {
    std::vector<float> to(from.size() / in * (weights.size() / in));
    add_product(from, weights, in, to);
    return to;
}

std::vector<float> normalised(std::span<const float> from) {
    std::vector<float> to(from.begin(), from.end());
    for (auto row = to.begin(); row != to.end(); row += model) {
        const float squares = std::inner_product(row, row + model, row, 0.0f);
        std::for_each(row, row + model, [&](float& x) { x /= std::sqrt(squares / model + 1e-6f); });
    }
    return to;
}

/// Turns pairs of channels by the token's position: keys are turned once, when they are stored.
void rotate(std::vector<float>& rows, std::span<const place> places) {
    const std::size_t per_token = rows.size() / places.size();
    for (std::size_t at = 0; at < rows.size(); at += depth)
        for (std::size_t pair = 0; pair < depth / 2; ++pair) {
            const double angle =
                places[at / per_token].position * std::pow(1e4, -2.0 * static_cast<double>(pair) / depth);
            const auto c = static_cast<float>(std::cos(angle)), s = static_cast<float>(std::sin(angle));
            float &x = rows[at + pair], &y = rows[at + pair + depth / 2];
            std::tie(x, y) = std::pair(x * c - y * s, y * c + x * s);
        }
}

}  // namespace

decoder::decoder(unsigned seed) {
    std::mt19937 random(seed);
    embedding_ = made(random, model, vocabulary);
    for (int each = 0; each < layers; ++each)
        layers_.push_back({.q = made(random, model, heads * depth),
                           .k = made(random, model, key_heads * depth),
                           .v = made(random, model, key_heads * depth),
                           .out = made(random, heads * depth, model),
                           .up = made(random, model, inner),
                           .down = made(random, inner, model)});
}

std::vector<float> decoder::operator()(std::span<const int> tokens, std::span<const place> places,
                                       const attention& attend) const {
    std::vector<float> x(tokens.size() * model), attended(tokens.size() * heads * depth);
    for (std::size_t i = 0; i < x.size(); ++i)  // the embedding is (model, vocabulary), as the last product has it
        x[i] = embedding_[i % model * vocabulary + static_cast<std::size_t>(tokens[i / model])];
    for (std::size_t at = 0; at < layers_.size(); ++at) {
        const layer& l = layers_[at];
        const std::vector<float> before = normalised(x);
        auto q = product(before, l.q, model), k = product(before, l.k, model), v = product(before, l.v, model);
        rotate(q, places), rotate(k, places);
        attend(static_cast<int>(at), q, k, v, attended);
        add_product(attended, l.out, heads * depth, x);
        auto wide = product(normalised(x), l.up, model);
        for (float& each : wide) each /= 1 + std::exp(-each);
        add_product(wide, l.down, inner, x);
    }
    return product(normalised(x), embedding_, model);
}

float round_row(std::span<const float> row, std::int8_t* to) {
    float largest = 1e-9f;
    for (const float x : row) largest = std::max(largest, std::abs(x));
    for (const float x : row) *to++ = static_cast<std::int8_t>(std::lround(x * (127 / largest)));
    return largest / 127;
}

int sample(std::span<const float> logits, double drawn) {
    constexpr double temperature = 0.7;
    const float most = *std::ranges::max_element(logits);
    const auto weight = [&](float logit) { return std::exp(static_cast<double>(logit - most) / temperature); };
    double left = 0;
    for (const float each : logits) left += weight(each);
    left *= drawn;
    for (std::size_t token = 0; token + 1 < logits.size(); ++token)
        if ((left -= weight(logits[token])) < 0) return static_cast<int>(token);
    return static_cast<int>(logits.size()) - 1;
}

std::vector<int> tokens_of(const std::string& text) {
    std::vector<int> tokens;
    for (const char each : text) tokens.push_back(std::clamp(each - ' ', 0, vocabulary - 1));
    return tokens;
}

std::string text_of(std::span<const int> tokens) {
    std::string text;
    for (const int each : tokens) text += static_cast<char>(each + ' ');
    return text;
}

}  // namespace serving
