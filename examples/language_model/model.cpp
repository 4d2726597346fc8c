#include "model.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <string>

namespace language_model {
namespace {

/// Each row over the root of its mean square, times the gain.
void normalise(std::span<const float> from, std::span<const float> gain, float epsilon, std::span<float> to) {
    const std::size_t width = gain.size();
#pragma omp parallel for schedule(static) if (from.size() > 1 << 16)
    for (std::size_t at = 0; at < from.size(); at += width) {
        float squares = 0;
#pragma omp simd reduction(+ : squares)
        for (std::size_t i = at; i < at + width; ++i) squares += from[i] * from[i];
        const float inverse = 1 / std::sqrt(squares / static_cast<float>(width) + epsilon);
        for (std::size_t i = 0; i < width; ++i) to[at + i] = from[at + i] * inverse * gain[i];
    }
}

void add(std::span<const float> from, std::span<float> to) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

/// gate * sigmoid(gate) * up, or with GELU by tanh; by exp alone, which compilers have for vectors. An exp that is
/// infinite would make their quick quotient NaN.
void activate(bool gelu, std::span<float> gate, std::span<const float> up) {
#pragma omp parallel for simd schedule(static) if (parallel : gate.size() > 1 << 15)
    for (std::size_t i = 0; i < gate.size(); ++i) {
        const float x = gate[i], bent = gelu ? 1.5957691216f * (x + 0.044715f * x * x * x) : x;
        gate[i] = x / (1 + std::exp(std::min(-bent, 80.0f))) * up[i];
    }
}

}  // namespace

model::model(const gguf& file, weight_type type, const std::function<void(int layer)>& loaded)
    : sizes_(file),
      embedding_(file.get_tensor("token_embd.weight", {sizes_.width, sizes_.vocabulary})),
      last_(file.get_tensor("output_norm.weight", {sizes_.width}).all()) {
    const bool own = file.tensors().contains("output.weight");
    const std::size_t read = static_cast<std::size_t>(sizes_.layers) * (sizes_.gemma ? 13 : 9) + (own ? 3 : 2);
    if (file.tensors().size() != read)
        file.refuse("expected the " + std::to_string(read) + " tensors that such a model computes with, got " +
                    std::to_string(file.tensors().size()));
    const gguf::tensor& words = own ? file.get_tensor("output.weight", embedding_.extents) : embedding_;
    words_ = {words.all(), sizes_.vocabulary, type};
    for (int i = 0; i < sizes_.layers; ++i) layers_.push_back(read_layer(file, i, type)), loaded(i);
}

model::layer model::read_layer(const gguf& file, int number, weight_type type) const {
    const std::string of = "blk." + std::to_string(number) + ".";
    const auto weights = [&](const std::string& name, std::int64_t in, std::int64_t out) {
        return matrix(file.get_tensor(of + name + ".weight", {in, out}).all(), out, type);
    };
    const auto gain = [&](const std::string& name, std::int64_t width) {
        return file.get_tensor(of + name + ".weight", {width}).all();
    };
    const auto [width, inner] = std::pair(sizes_.width, sizes_.inner);
    const std::int64_t queries = sizes_.heads * sizes_.depth, keys = sizes_.key_heads * sizes_.depth;
    layer made{.before = gain("attn_norm", width),
               .behind = {},
               .before_inner = gain("ffn_norm", width),
               .behind_inner = {},
               .q = weights("attn_q", width, queries),
               .k = weights("attn_k", width, keys),
               .v = weights("attn_v", width, keys),
               .out = weights("attn_output", queries, width),
               .gate = weights("ffn_gate", width, inner),
               .up = weights("ffn_up", width, inner),
               .down = weights("ffn_down", inner, width),
               .attends = {}};
    if (sizes_.gemma) {
        made.behind = gain("post_attention_norm", width), made.behind_inner = gain("post_ffw_norm", width);
        made.attends = {gain("attn_q_norm", sizes_.depth), gain("attn_k_norm", sizes_.depth), number % 6 != 5};
    }
    return made;
}

std::vector<float> model::operator()(const step& s, cache& past, bool of_each_token) const {
    for (const std::int32_t length : s.lengths)
        if (length > past.slots)
            throw std::invalid_argument("expected at most " + std::to_string(past.slots) +
                                        " tokens a sequence, for which the cache has slots, got " +
                                        std::to_string(length));
    const auto width = static_cast<std::size_t>(sizes_.width);
    const std::size_t tokens = s.tokens.size();
    std::vector<float> x(tokens * width), normed(x.size()), added(x.size());
    const float scale = sizes_.gemma ? std::sqrt(static_cast<float>(sizes_.width)) : 1;
    for (std::size_t i = 0; i < tokens; ++i)
        std::ranges::transform(embedding_.row(s.tokens[i]), x.begin() + static_cast<std::ptrdiff_t>(i * width),
                               [&](float each) { return scale * each; });

    const auto rows_of = [&](const matrix& m) {
        return std::vector<float>(tokens * static_cast<std::size_t>(m.out()));
    };
    const layer& first = layers_.front();
    projected rows{rows_of(first.q), rows_of(first.k), rows_of(first.v), rows_of(first.q)};
    std::vector<float> gate = rows_of(first.gate), up = rows_of(first.up);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
        const layer& l = layers_[i];
        normalise(x, l.before, sizes_.epsilon, normed);
        l.q(normed, rows.q), l.k(normed, rows.k), l.v(normed, rows.v);
        const auto begin = std::chrono::steady_clock::now();
        past.attend(static_cast<std::int64_t>(i), l.attends, s, rows);
        past.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        l.out(rows.out, added);
        if (sizes_.gemma) normalise(added, l.behind, sizes_.epsilon, added);
        add(added, x);
        normalise(x, l.before_inner, sizes_.epsilon, normed);
        l.gate(normed, gate), l.up(normed, up);
        activate(sizes_.gemma, gate, up);
        l.down(gate, added);
        if (sizes_.gemma) normalise(added, l.behind_inner, sizes_.epsilon, added);
        add(added, x);
    }

    if (!of_each_token) {  // the last row of each sequence
        std::size_t kept = 0;
        for (std::size_t sequence = 0; sequence + 1 < s.starts.size(); ++sequence) {
            const auto end = static_cast<std::size_t>(s.starts[sequence + 1]) * width;
            if (s.starts[sequence] == s.starts[sequence + 1]) continue;
            std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(end - width), width,
                        x.begin() + static_cast<std::ptrdiff_t>(kept++ * width));
        }
        x.resize(kept * width), normed.resize(x.size());
    }
    normalise(x, last_, sizes_.epsilon, normed);
    std::vector<float> logits(x.size() / width * static_cast<std::size_t>(sizes_.vocabulary));
    words_(normed, logits);
    return logits;
}

}  // namespace language_model
