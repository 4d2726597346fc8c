#include "decoder.hpp"

#include <attune/mapped_tensors.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>

namespace serving {
namespace {

/// The axes of the weights; matrices are (in, out).
std::map<std::string, std::vector<std::int64_t>> shapes() {
    std::map<std::string, std::vector<std::int64_t>> all{{"embedding", {vocabulary, model}}, {"norm", {model}}};
    for (int layer = 0; layer < layers; ++layer) {
        const std::string name = "layer" + std::to_string(layer) + ".";
        all[name + "norm"] = all[name + "norm_again"] = {model};
        all[name + "queries"] = {model, heads * depth}, all[name + "out"] = {heads * depth, model};
        all[name + "keys"] = all[name + "values"] = {model, key_heads * depth};
        all[name + "inner"] = {model, inner}, all[name + "outer"] = {inner, model};
        all[name + "slopes"] = {heads};
    }
    return all;
}

std::size_t size_of(const std::vector<std::int64_t>& shape) {
    return static_cast<std::size_t>(std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
}

/// to (row, out) += from (row, in) * matrix (in, out)
void add_product(std::span<const float> from, std::span<const float> matrix, std::size_t in, std::span<float> to) {
    const std::size_t out = matrix.size() / in;
    for (std::size_t row = 0; row < from.size() / in; ++row)
        for (std::size_t i = 0; i < in; ++i)
            for (std::size_t o = 0; o < out; ++o) to[row * out + o] += from[row * in + i] * matrix[i * out + o];
}

std::vector<float> product(std::span<const float> from, std::span<const float> matrix, std::size_t in) {
    std::vector<float> to(from.size() / in * (matrix.size() / in));
    add_product(from, matrix, in, to);
    return to;
}

std::vector<float> normed(std::span<const float> from, std::span<const float> factor) {
    std::vector<float> to(from.begin(), from.end());
    for (auto row = to.begin(); row != to.end(); row += model) {
        const float squares = std::inner_product(row, row + model, row, 0.0f);
        const float inverse = 1 / std::sqrt(squares / model + 1e-5f);
        std::transform(row, row + model, factor.begin(), row, [&](float x, float by) { return x * inverse * by; });
    }
    return to;
}

}  // namespace

weights drawn(unsigned seed) {
    std::mt19937 random(seed);
    weights all;
    for (const auto& [name, shape] : shapes()) {
        std::vector<float>& each = all[name];
        each.assign(size_of(shape), name.ends_with("slopes") ? 0.1f : 1.0f);
        if (shape.size() < 2) continue;
        const std::int64_t in = name == "embedding" ? model : shape.front();
        std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(in)));
        for (float& x : each) x = normal(random);
    }
    return all;
}

weights read(const std::string& file) {
    const attune::support::mapped_tensors saved(file);
    weights all;
    for (const auto& [name, shape] : shapes()) {
        const auto at = saved.tensors().find(name);
        if (at == saved.tensors().end() || at->second.type != "F32" || at->second.shape != shape)
            throw std::runtime_error(file + ": expected " + name + " as examples/training saves it");
        std::vector<float>& each = all[name];
        each.resize(size_of(shape));
        std::memcpy(each.data(), at->second.bytes.data(), at->second.bytes.size());
    }
    return all;
}

std::vector<float> decoder::operator()(std::span<const int> tokens, const attention& attend) const {
    std::vector<float> x(tokens.size() * model), attended(tokens.size() * heads * depth);
    const std::vector<float>& embedding = all_.at("embedding");
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = embedding[static_cast<std::size_t>(tokens[i / model]) * model + i % model];
    for (int layer = 0; layer < layers; ++layer) {
        const std::vector<float> before = normed(x, of(layer, "norm"));
        const auto q = product(before, of(layer, "queries"), model), k = product(before, of(layer, "keys"), model),
                   v = product(before, of(layer, "values"), model);
        attend(layer, q, k, v, attended);
        add_product(attended, of(layer, "out"), heads * depth, x);
        auto wide = product(normed(x, of(layer, "norm_again")), of(layer, "inner"), model);
        for (float& each : wide) each /= 1 + std::exp(-each);
        add_product(wide, of(layer, "outer"), inner, x);
    }
    const std::vector<float> last = normed(x, all_.at("norm"));
    std::vector<float> logits(tokens.size() * vocabulary);
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const auto row = last.begin() + static_cast<std::ptrdiff_t>(i / vocabulary * model),
                   symbol = embedding.begin() + static_cast<std::ptrdiff_t>(i % vocabulary * model);
        logits[i] = std::inner_product(row, row + model, symbol, 0.0f);
    }
    return logits;
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
    for (const char each : text) tokens.push_back(static_cast<unsigned char>(each));
    return tokens;
}

std::string text_of(std::span<const int> tokens) {
    std::string text;
    for (const int each : tokens) text += each > ' ' && each <= '~' ? static_cast<char>(each) : ' ';
    return text;
}

}  // namespace serving
