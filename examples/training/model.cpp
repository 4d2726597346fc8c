#include "model.hpp"

#include "training.hpp"

#include <attune/runtime.hpp>

#include <cmath>
#include <random>

namespace training {
namespace {

using numbers = std::vector<float>;

/// c (m, n) += a (m, k) b (k, n); of_a, of_b: as they lie, or turned.
enum class lies : std::uint8_t { as_it_is, turned };
void multiply(int m, int n, int k, const float* a, lies of_a, const float* b, lies of_b, float* c) {
    for (int i = 0; i < m; ++i)
        for (int p = 0; p < k; ++p) {
            const float x = of_a == lies::as_it_is ? a[i * k + p] : a[p * m + i];
            if (of_b == lies::as_it_is)
                for (int j = 0; j < n; ++j) c[i * n + j] += x * b[p * n + j];
            else
                for (int j = 0; j < n; ++j) c[i * n + j] += x * b[j * k + p];
        }
}

/// x (rows, in) times a matrix (in, out).
numbers linear(const numbers& x, const numbers& matrix, int in, int out) {
    const int rows = static_cast<int>(x.size()) / in;
    numbers y(static_cast<std::size_t>(rows * out));
    multiply(rows, out, in, x.data(), lies::as_it_is, matrix.data(), lies::as_it_is, y.data());
    return y;
}
void linear_backward(const numbers& x, const numbers& matrix, int in, int out, const numbers& dy, numbers& dx,
                     numbers& dmatrix) {
    const int rows = static_cast<int>(x.size()) / in;
    multiply(in, out, rows, x.data(), lies::turned, dy.data(), lies::as_it_is, dmatrix.data());
    multiply(rows, in, out, dy.data(), lies::as_it_is, matrix.data(), lies::turned, dx.data());
}

constexpr float least = 1e-5f;
float inverse_size(const float* row, int width) {
    float sum = 0;
    for (int i = 0; i < width; ++i) sum += row[i] * row[i];
    return 1 / std::sqrt(sum / static_cast<float>(width) + least);
}

/// Rows over their root mean square, times a factor a channel.
numbers norm(const numbers& x, const numbers& factor) {
    const int width = static_cast<int>(factor.size());
    numbers y(x.size());
    for (std::size_t row = 0; row < x.size(); row += factor.size()) {
        const float inverse = inverse_size(&x[row], width);
        for (std::size_t i = 0; i < factor.size(); ++i) y[row + i] = x[row + i] * inverse * factor[i];
    }
    return y;
}
void norm_backward(const numbers& x, const numbers& factor, const numbers& dy, numbers& dx, numbers& dfactor) {
    const int width = static_cast<int>(factor.size());
    for (std::size_t row = 0; row < x.size(); row += factor.size()) {
        const float inverse = inverse_size(&x[row], width);
        float along = 0;
        for (std::size_t i = 0; i < factor.size(); ++i) {
            along += dy[row + i] * factor[i] * x[row + i];
            dfactor[i] += dy[row + i] * x[row + i] * inverse;
        }
        along *= inverse * inverse * inverse / static_cast<float>(width);
        for (std::size_t i = 0; i < factor.size(); ++i)
            dx[row + i] += dy[row + i] * factor[i] * inverse - x[row + i] * along;
    }
}

float silu(float x) { return x / (1 + std::exp(-x)); }
float silu_slope(float x) {
    const float sigmoid = 1 / (1 + std::exp(-x));
    return sigmoid * (1 + x * (1 - sigmoid));
}

/// (batch, length, heads * depth) as attune reads it, (batch, head, length, depth).
struct rows_of_heads {
    std::int64_t shape[4], strides[4];
    rows_of_heads(const sizes& s, int heads)
        : shape{s.batch, heads, s.length, s.depth},
          strides{std::int64_t{s.length} * heads * s.depth, s.depth, std::int64_t{heads} * s.depth, 1} {}
    attune::tensor of(numbers& x) const { return {x.data(), shape, strides}; }
};

}  // namespace

parameters drawn(const sizes& s, unsigned seed) {
    std::mt19937 random(seed);
    parameters all;
    const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, float deviation, float mean = 0) {
        parameter& p = all[name];
        std::size_t size = 1;
        for (const std::int64_t extent : shape) size *= static_cast<std::size_t>(extent);
        p.shape = std::move(shape);
        for (numbers* each : {&p.value, &p.gradient, &p.mean, &p.square}) each->resize(size);
        std::normal_distribution<float> normal(mean, deviation);
        for (float& x : p.value) x = deviation == 0 ? mean : normal(random);
    };
    const auto matrix = [&](const std::string& name, int in, int out) {
        add(name, {in, out}, 1 / std::sqrt(static_cast<float>(in)));
    };
    add("embedding", {sizes::symbols, s.channels}, 0.05f);
    for (int i = 0; i < s.layers; ++i) {
        const std::string name = "layer" + std::to_string(i) + ".";
        add(name + "norm", {s.channels}, 0, 1), add(name + "norm_again", {s.channels}, 0, 1);
        matrix(name + "queries", s.channels, s.heads * s.depth),
            matrix(name + "keys", s.channels, s.key_heads * s.depth);
        matrix(name + "values", s.channels, s.key_heads * s.depth), matrix(name + "out", s.heads * s.depth, s.channels);
        matrix(name + "inner", s.channels, s.inner), matrix(name + "outer", s.inner, s.channels);
        add(name + "slopes", {s.heads}, 0.05f, 0.1f);
    }
    add("norm", {s.channels}, 0, 1);
    return all;
}

void model::attend(layer& l, const std::string& name) {
    const int of_q = s_.heads * s_.depth, of_k = s_.key_heads * s_.depth;
    l.q = linear(l.normed, value(name + "queries"), s_.channels, of_q);
    l.k = linear(l.normed, value(name + "keys"), s_.channels, of_k);
    l.v = linear(l.normed, value(name + "values"), s_.channels, of_k);
    l.out.resize(l.q.size()), l.lse.resize(static_cast<std::size_t>(s_.tokens() * s_.heads));
    const rows_of_heads rows(s_, s_.heads), keys(s_, s_.key_heads);
    const std::int64_t of_rows[] = {s_.batch, s_.heads, s_.length}, of_heads[] = {s_.heads};
    attune::run<attention>(q = rows.of(l.q), k = keys.of(l.k), v = keys.of(l.v),
                           slopes = attune::tensor(value(name + "slopes").data(), of_heads), out = rows.of(l.out),
                           lse = attune::tensor(l.lse.data(), of_rows));
}

void model::attend_backward(layer& l, const std::string& name, const numbers& d_out, numbers& dnormed) {
    const int of_q = s_.heads * s_.depth, of_k = s_.key_heads * s_.depth;
    numbers dout = d_out, dq(l.q.size()), dk(l.k.size()), dv(l.v.size());
    const rows_of_heads rows(s_, s_.heads), keys(s_, s_.key_heads);
    const std::int64_t of_rows[] = {s_.batch, s_.heads, s_.length}, of_heads[] = {s_.heads};
    attune::run<attention_gradient>(q = rows.of(l.q), k = keys.of(l.k), v = keys.of(l.v),
                                    slopes = attune::tensor(value(name + "slopes").data(), of_heads),
                                    out = rows.of(l.out), lse = attune::tensor(l.lse.data(), of_rows),
                                    d(out) = rows.of(dout), d(q) = rows.of(dq), d(k) = keys.of(dk), d(v) = keys.of(dv),
                                    d(slopes) = attune::tensor(gradient(name + "slopes").data(), of_heads));
    linear_backward(l.normed, value(name + "queries"), s_.channels, of_q, dq, dnormed, gradient(name + "queries"));
    linear_backward(l.normed, value(name + "keys"), s_.channels, of_k, dk, dnormed, gradient(name + "keys"));
    linear_backward(l.normed, value(name + "values"), s_.channels, of_k, dv, dnormed, gradient(name + "values"));
}

void model::forward(layer& l, const std::string& name) {
    l.before = x_, l.normed = norm(x_, value(name + "norm"));
    attend(l, name);
    const numbers attended = linear(l.out, value(name + "out"), s_.heads * s_.depth, s_.channels);
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] += attended[i];
    l.between = x_, l.normed_again = norm(x_, value(name + "norm_again"));
    l.inner = linear(l.normed_again, value(name + "inner"), s_.channels, s_.inner), l.active = l.inner;
    for (float& x : l.active) x = silu(x);
    const numbers made = linear(l.active, value(name + "outer"), s_.inner, s_.channels);
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] += made[i];
}

void model::backward(layer& l, const std::string& name) {
    numbers dactive(l.active.size()), dnormed(x_.size()), dout(l.out.size()), dnormed_again(x_.size());
    linear_backward(l.active, value(name + "outer"), s_.inner, s_.channels, dx_, dactive, gradient(name + "outer"));
    for (std::size_t i = 0; i < dactive.size(); ++i) dactive[i] *= silu_slope(l.inner[i]);
    linear_backward(l.normed_again, value(name + "inner"), s_.channels, s_.inner, dactive, dnormed_again,
                    gradient(name + "inner"));
    norm_backward(l.between, value(name + "norm_again"), dnormed_again, dx_, gradient(name + "norm_again"));
    linear_backward(l.out, value(name + "out"), s_.heads * s_.depth, s_.channels, dx_, dout, gradient(name + "out"));
    attend_backward(l, name, dout, dnormed);
    norm_backward(l.before, value(name + "norm"), dnormed, dx_, gradient(name + "norm"));
}

double model::loss(std::span<const std::uint8_t> text, std::span<const std::uint8_t> next) {
    text_.assign(text.begin(), text.end()), next_.assign(next.begin(), next.end());
    const auto channels = static_cast<std::size_t>(s_.channels);
    const numbers& embedding = value("embedding");
    x_.resize(text_.size() * channels);
    for (std::size_t token = 0; token < text_.size(); ++token)
        for (std::size_t i = 0; i < channels; ++i) x_[token * channels + i] = embedding[text_[token] * channels + i];
    for (std::size_t i = 0; i < layers_.size(); ++i) forward(layers_[i], "layer" + std::to_string(i) + ".");
    last_ = x_, normed_ = norm(x_, value("norm"));
    const auto symbols = static_cast<std::size_t>(sizes::symbols);
    chances_.assign(text_.size() * symbols, 0);
    multiply(s_.tokens(), sizes::symbols, s_.channels, normed_.data(), lies::as_it_is, embedding.data(), lies::turned,
             chances_.data());
    double sum = 0;
    for (std::size_t token = 0; token < text_.size(); ++token) {
        float* const row = &chances_[token * symbols];
        float most = row[0];
        for (std::size_t i = 0; i < symbols; ++i) most = std::max(most, row[i]);
        double all = 0;
        for (std::size_t i = 0; i < symbols; ++i) all += std::exp(static_cast<double>(row[i] - most));
        sum += std::log(all) - static_cast<double>(row[next_[token]] - most);
        for (std::size_t i = 0; i < symbols; ++i)
            row[i] = static_cast<float>(std::exp(static_cast<double>(row[i] - most)) / all);
    }
    return sum / static_cast<double>(text_.size());
}

void model::backward() {
    for (auto& [name, p] : all_) p.gradient.assign(p.gradient.size(), 0);
    const auto channels = static_cast<std::size_t>(s_.channels);
    numbers dlogits = chances_;
    for (std::size_t token = 0; token < text_.size(); ++token) dlogits[token * sizes::symbols + next_[token]] -= 1;
    for (float& x : dlogits) x /= static_cast<float>(text_.size());
    numbers dnormed(x_.size());
    multiply(s_.tokens(), s_.channels, sizes::symbols, dlogits.data(), lies::as_it_is, value("embedding").data(),
             lies::as_it_is, dnormed.data());
    multiply(sizes::symbols, s_.channels, s_.tokens(), dlogits.data(), lies::turned, normed_.data(), lies::as_it_is,
             gradient("embedding").data());
    dx_.assign(x_.size(), 0);
    norm_backward(last_, value("norm"), dnormed, dx_, gradient("norm"));
    for (std::size_t i = layers_.size(); i-- > 0;) backward(layers_[i], "layer" + std::to_string(i) + ".");
    for (std::size_t token = 0; token < text_.size(); ++token)
        for (std::size_t i = 0; i < channels; ++i)
            gradient("embedding")[text_[token] * channels + i] += dx_[token * channels + i];
}

void model::step(int number, float rate) {
    constexpr float of_mean = 0.9f, of_square = 0.99f, smallest = 1e-8f;
    const float mean_so_far = 1 - std::pow(of_mean, static_cast<float>(number)),
                square_so_far = 1 - std::pow(of_square, static_cast<float>(number));
    for (auto& [name, p] : all_)
        for (std::size_t i = 0; i < p.value.size(); ++i) {
            const float g = p.gradient[i];
            p.mean[i] = of_mean * p.mean[i] + (1 - of_mean) * g;
            p.square[i] = of_square * p.square[i] + (1 - of_square) * g * g;
            p.value[i] -= rate * (p.mean[i] / mean_so_far) / (std::sqrt(p.square[i] / square_so_far) + smallest);
        }
}

}  // namespace training
