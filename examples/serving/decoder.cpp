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

using shapes = std::map<std::string, std::vector<std::int64_t>>;

/// The axes of a layer's weights; matrices are (in, out).
void add_layer(shapes& all, int layer, bool has_state) {
    const std::string name = "layer" + std::to_string(layer) + ".";
    all[name + "norm"] = all[name + "norm_again"] = {model};
    all[name + "inner"] = {model, inner}, all[name + "outer"] = {inner, model};
    if (has_state) {
        all[name + "mixed"] = {model, mixed}, all[name + "taps"] = {mixed, taps};
        all[name + "decay"] = all[name + "step"] = {model, state_heads};
        all[name + "a_log"] = all[name + "dt_bias"] = {state_heads};
        all[name + "gate"] = {model, state_heads * depth}, all[name + "norm_of_heads"] = {depth};
        all[name + "out"] = {state_heads * depth, model};
    } else {
        all[name + "queries"] = {model, heads * depth}, all[name + "out"] = {heads * depth, model};
        all[name + "keys"] = all[name + "values"] = {model, key_heads * depth};
        all[name + "slopes"] = {heads};
    }
}

shapes shapes_of(std::initializer_list<bool> layers_with_states) {
    shapes all{{"embedding", {vocabulary, model}}, {"norm", {model}}};
    int layer = 0;
    for (const bool has_state : layers_with_states) add_layer(all, layer++, has_state);
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

/// Rows as wide as the factor, each of a mean square of 1 times it.
std::vector<float> normed(std::span<const float> from, std::span<const float> factor) {
    std::vector<float> to(from.begin(), from.end());
    const auto width = static_cast<std::ptrdiff_t>(factor.size());
    for (auto row = to.begin(); row != to.end(); row += width) {
        const float squares = std::inner_product(row, row + width, row, 0.0f);
        const float inverse = 1 / std::sqrt(squares / static_cast<float>(width) + 1e-5f);
        std::transform(row, row + width, factor.begin(), row, [&](float x, float by) { return x * inverse * by; });
    }
    return to;
}

float silu(float x) { return x / (1 + std::exp(-x)); }

}  // namespace

weights drawn(unsigned seed) {
    std::mt19937 random(seed);
    weights all;
    for (const auto& [name, shape] : shapes_of({true, true, true, false})) {
        std::vector<float>& each = all[name];
        each.assign(size_of(shape), name.ends_with("slopes") ? 0.1f : name.ends_with("dt_bias") ? -3.0f : 1.0f);
        if (shape.size() < 2) continue;
        const std::int64_t in = name == "embedding" ? model : name.ends_with("taps") ? taps : shape.front();
        std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(in)));
        for (float& x : each) x = normal(random);
    }
    return all;
}

weights read(const std::string& file) {
    const attune::support::mapped_tensors saved(file);
    weights all;
    for (const auto& [name, shape] : shapes_of({false, false})) {
        const auto at = saved.tensors().find(name);
        if (at == saved.tensors().end() || at->second.type != "F32" || at->second.shape != shape)
            throw std::runtime_error(file + ": expected " + name + " as examples/training saves it");
        std::vector<float>& each = all[name];
        each.resize(size_of(shape));
        std::memcpy(each.data(), at->second.bytes.data(), at->second.bytes.size());
    }
    return all;
}

decoder::decoder(weights all) : all_(std::move(all)) {
    while (all_.contains(name_of(layers_, "out"))) ++layers_;
}

void decoder::add_attention(int layer, std::span<const float> normed, const attention& attend,
                            std::span<float> x) const {
    const auto q = product(normed, of(layer, "queries"), model), k = product(normed, of(layer, "keys"), model),
               v = product(normed, of(layer, "values"), model);
    std::vector<float> attended(q.size());
    attend(layer, q, k, v, attended);
    add_product(attended, of(layer, "out"), heads * depth, x);
}

void decoder::add_recurrence(int layer, std::span<const float> before, const recurrence& recur,
                             std::span<float> x) const {
    const auto rows = product(before, of(layer, "mixed"), model), decay = product(before, of(layer, "decay"), model),
               step = product(before, of(layer, "step"), model), gate = product(before, of(layer, "gate"), model);
    std::vector<float> read(gate.size());
    recur(layer, {rows, decay, step}, read);
    read = normed(read, of(layer, "norm_of_heads"));
    std::ranges::transform(read, gate, read.begin(), [](float each, float by) { return each * silu(by); });
    add_product(read, of(layer, "out"), state_heads * depth, x);
}

std::vector<float> decoder::operator()(std::span<const int> tokens, const attention& attend,
                                       const recurrence& recur) const {
    std::vector<float> x(tokens.size() * model);
    const std::vector<float>& embedding = all_.at("embedding");
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = embedding[static_cast<std::size_t>(tokens[i / model]) * model + i % model];
    for (int layer = 0; layer < layers_; ++layer) {
        const std::vector<float> before = normed(x, of(layer, "norm"));
        if (has_state(layer))
            add_recurrence(layer, before, recur, x);
        else
            add_attention(layer, before, attend, x);
        auto wide = product(normed(x, of(layer, "norm_again")), of(layer, "inner"), model);
        std::ranges::transform(wide, wide.begin(), silu);
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
