#include "encoder.hpp"

#include "bert.hpp"

#include <attune/runtime.hpp>

#include <algorithm>
#include <cmath>

namespace sentence_embeddings {
using attune::tensor;

encoder::encoder(const weights& file, const sizes& model) : model_(model) {
    const std::int64_t width = model.width, inner = model.inner;
    const auto parameters_of = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
        return parameters{file.get(name + ".weight", shape), file.get(name + ".bias", {shape.front()})};
    };
    words_ = file.get("embeddings.word_embeddings.weight", {model.vocabulary, width});
    of_place_ = file.get("embeddings.position_embeddings.weight", {model.places, width});
    // The first of two: the second one is for pairs of sentences.
    of_segment_ = tensor(
        static_cast<const float*>(file.get("embeddings.token_type_embeddings.weight", {2, width}).data()), {width});
    embedded_ = parameters_of("embeddings.LayerNorm", {width});
    for (std::int64_t i = 0; i < model.layers; ++i) {
        const std::string of = "encoder.layer." + std::to_string(i) + ".";
        layers_.push_back({.query = parameters_of(of + "attention.self.query", {width, width}),
                           .key = parameters_of(of + "attention.self.key", {width, width}),
                           .value = parameters_of(of + "attention.self.value", {width, width}),
                           .merged = parameters_of(of + "attention.output.dense", {width, width}),
                           .attended = parameters_of(of + "attention.output.LayerNorm", {width}),
                           .inner = parameters_of(of + "intermediate.dense", {inner, width}),
                           .outer = parameters_of(of + "output.dense", {width, inner}),
                           .fed_forward = parameters_of(of + "output.LayerNorm", {width})});
    }
}

std::vector<float> encoder::operator()(std::span<const std::vector<std::int32_t>> sentences) const {
    constexpr std::size_t tokens_at_once = 16384;
    std::vector<float> rows(sentences.size() * static_cast<std::size_t>(model_.width));
    for (std::size_t begin = 0, end = 0; begin < sentences.size(); begin = end) {
        std::size_t tokens = 0;
        do tokens += sentences[end++].size();
        while (end < sentences.size() && tokens + sentences[end].size() <= tokens_at_once);
        encode(sentences.subspan(begin, end - begin), rows.data() + begin * static_cast<std::size_t>(model_.width));
    }
    return rows;
}

void encoder::encode(std::span<const std::vector<std::int32_t>> batch, float* rows) const {
    std::vector<std::int32_t> ids, places, sentence;
    for (std::size_t s = 0; s < batch.size(); ++s) {
        for (std::size_t i = 0; i < batch[s].size(); ++i) {
            ids.push_back(batch[s][i]);
            places.push_back(static_cast<std::int32_t>(i));
            sentence.push_back(static_cast<std::int32_t>(s));
        }
    }
    const auto length = static_cast<std::int64_t>(ids.size());
    const auto of_tokens = [&](const std::vector<std::int32_t>& numbers) {
        return tensor(numbers.data(), {1, length});
    };
    std::vector<float> layers_input(ids.size() * static_cast<std::size_t>(model_.width)), between(layers_input.size());
    const tensor input(layers_input.data(), {1, length, model_.width}), half(between.data(), {1, length, model_.width});

    using bert::weight, bert::bias, bert::x;
    attune::run<bert::embedded>(bert::ids = of_tokens(ids), bert::places = of_tokens(places), bert::words = words_,
                                bert::of_place = of_place_, bert::of_segment = of_segment_,
                                bias<"gain"> = embedded_.weight, bias<"shift"> = embedded_.bias, bert::out = input);
    for (const layer& of : layers_) {
        attune::run<bert::attended>(
            x = input, bert::sentence = of_tokens(sentence), bert::number_of_heads = model_.heads,
            weight<"w_q"> = of.query.weight, bias<"b_q"> = of.query.bias, weight<"w_k"> = of.key.weight,
            bias<"b_k"> = of.key.bias, weight<"w_v"> = of.value.weight, bias<"b_v"> = of.value.bias,
            weight<"w_o"> = of.merged.weight, bias<"b_o"> = of.merged.bias, bias<"gain"> = of.attended.weight,
            bias<"shift"> = of.attended.bias, bert::out = half);
        attune::run<bert::fed_forward>(x = half, weight<"w_inner"> = of.inner.weight, bias<"b_inner"> = of.inner.bias,
                                       weight<"w_outer"> = of.outer.weight, bias<"b_outer"> = of.outer.bias,
                                       bias<"gain"> = of.fed_forward.weight, bias<"shift"> = of.fed_forward.bias,
                                       bert::out = input);
    }

    const auto width = static_cast<std::size_t>(model_.width);
    const float* token = layers_input.data();
    for (std::size_t s = 0; s < batch.size(); ++s) {
        float* const row = rows + s * width;
        for (std::size_t i = 0; i < batch[s].size(); ++i, token += width)
            for (std::size_t d = 0; d < width; ++d) row[d] += token[d];
        double squares = 0;
        for (std::size_t d = 0; d < width; ++d) squares += static_cast<double>(row[d]) * static_cast<double>(row[d]);
        const auto scale =
            static_cast<float>(1 / std::sqrt(std::max(squares, 1e-24)));  // the mean's divisor would cancel out
        for (std::size_t d = 0; d < width; ++d) row[d] *= scale;
    }
}

}  // namespace sentence_embeddings
