#include "alone.hpp"

#include <algorithm>
#include <cmath>

namespace serving {
namespace {

using numbers = std::vector<double>;

/// Softmax over the keys up to each query's own.
void attend_alone(const std::vector<float>& slopes, std::span<const float> q, std::span<const float> k,
                  std::span<const float> v, std::span<float> out) {
    const auto rounded = [](std::span<const float> rows) {
        numbers to;
        std::int8_t bytes[depth];
        for (std::size_t at = 0; at < rows.size(); at += depth) {
            const float scale = round_row(rows.subspan(at, depth), bytes);
            for (const std::int8_t each : bytes) to.push_back(static_cast<double>(scale) * each);
        }
        return to;
    };
    const numbers keys = rounded(k), values = rounded(v);
    for (std::size_t row = 0; row < q.size() / depth; ++row) {
        const std::size_t token = row / heads, head = row % heads / (heads / key_heads);
        const auto slope = static_cast<double>(slopes[row % heads]);
        double sum = 0, sums[depth] = {};
        for (std::size_t key = 0; key <= token; ++key) {
            const std::size_t at = (key * key_heads + head) * depth;
            double score = 0;
            for (std::size_t d = 0; d < depth; ++d) score += static_cast<double>(q[row * depth + d]) * keys[at + d];
            const double weight = std::exp(score / std::sqrt(double{depth}) - slope * static_cast<double>(token - key));
            sum += weight;
            for (std::size_t d = 0; d < depth; ++d) sums[d] += weight * values[at + d];
        }
        for (std::size_t d = 0; d < depth; ++d) out[row * depth + d] = static_cast<float>(sums[d] / sum);
    }
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// A token's row behind the convolution, whose rows before the first token are zeros.
numbers convolved(std::span<const float> rows, const std::vector<float>& weights, std::size_t token) {
    numbers row(mixed);
    for (std::size_t channel = 0; channel < row.size(); ++channel) {
        for (std::size_t back = 0; back < taps && back <= token; ++back)
            row[channel] += static_cast<double>(weights[channel * taps + taps - 1 - back]) *
                            static_cast<double>(rows[(token - back) * mixed + channel]);
        row[channel] *= sigmoid(row[channel]);
    }
    return row;
}

/// The gated delta rule, a token after the other.
void recur_alone(const decoder& model, int layer, const state_rows& rows, std::span<float> out) {
    const auto weight = [&](const char* name, std::size_t head) {
        return static_cast<double>(model.of(layer, name)[head]);
    };
    std::vector<numbers> states(state_heads, numbers(depth * depth));
    for (std::size_t token = 0; token < rows.decay.size() / state_heads; ++token) {
        const numbers row = convolved(rows.mixed, model.of(layer, "taps"), token);
        for (std::size_t head = 0; head < state_heads; ++head) {
            const std::size_t shared = head / (state_heads / state_key_heads), at = token * state_heads + head;
            const auto unit_row = [&](std::size_t first) {
                numbers made(row.begin() + static_cast<std::ptrdiff_t>(first * depth),
                             row.begin() + static_cast<std::ptrdiff_t>((first + 1) * depth));
                double squares = 1e-6;
                for (const double x : made) squares += x * x;
                for (double& x : made) x /= std::sqrt(squares);
                return made;
            };
            const numbers q = unit_row(shared), k = unit_row(state_key_heads + shared);
            const double* const v = row.data() + (2 * state_key_heads + head) * depth;
            const double raw = static_cast<double>(rows.decay[at]) + weight("dt_bias", head),
                         decay = std::exp(-std::exp(weight("a_log", head)) * std::log1p(std::exp(raw))),
                         step = sigmoid(static_cast<double>(rows.step[at]));
            for (std::size_t e = 0; e < depth; ++e) {
                double held = 0, read = 0;
                for (std::size_t d = 0; d < depth; ++d) held += k[d] * (states[head][d * depth + e] *= decay);
                for (std::size_t d = 0; d < depth; ++d)
                    read += q[d] * (states[head][d * depth + e] += k[d] * step * (v[e] - held));
                out[at * depth + e] = static_cast<float>(read / std::sqrt(double{depth}));
            }
        }
    }
}

}  // namespace

difference difference_alone(const decoder& model, const request& r) {
    const auto logits = model(
        std::span(r.tokens).first(r.tokens.size() - 1),
        [&](int layer, auto q, auto k, auto v, auto out) { attend_alone(model.of(layer, "slopes"), q, k, v, out); },
        [&](int layer, const state_rows& rows, auto out) { recur_alone(model, layer, rows, out); });
    std::minstd_rand random(r.seed);
    difference all;
    for (std::size_t i = 0; i < r.answers.size(); ++i) {
        const double drawn = std::uniform_real_distribution<double>(0, 1)(random), near = 1e-3;
        const int token = r.tokens[r.answers[i]];
        const auto row = std::span(logits).subspan((r.answers[i] - 1) * vocabulary, vocabulary),
                   told = std::span(r.logits).subspan(i * vocabulary, vocabulary);
        all.tokens += sample(row, drawn - near) > token || sample(row, drawn + near) < token;
        for (std::size_t symbol = 0; symbol < row.size(); ++symbol) {
            const double error = std::abs(static_cast<double>(row[symbol]) - static_cast<double>(told[symbol]));
            all.logits = std::isnan(error) ? error : std::max(all.logits, error);
        }
    }
    return all;
}

}  // namespace serving
