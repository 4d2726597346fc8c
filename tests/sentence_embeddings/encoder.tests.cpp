// The encoder's graphs against the same model by hand in double precision; most similar pairs.
#include "encoder.hpp"
#include "model_file.hpp"
#include "similar.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <random>

using namespace sentence_embeddings;
using namespace sentence_embeddings::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

constexpr sizes tiny{.vocabulary = 40, .places = 150, .width = 64, .heads = 2, .inner = 96, .layers = 2};
using matrix = std::vector<std::vector<double>>;
using tokens = std::vector<std::int32_t>;

/// BERT a sentence at a time, as the papers write it.
class by_hand {
public:
    explicit by_hand(const model_tensors& model) : model_(model) {}

    std::vector<double> operator()(const tokens& sentence) const {
        matrix x;
        for (std::size_t i = 0; i < sentence.size(); ++i) {
            std::vector<double>& row = x.emplace_back();
            for (std::int64_t d = 0; d < tiny.width; ++d)
                row.push_back(at("embeddings.word_embeddings.weight", sentence[i], d) +
                              at("embeddings.position_embeddings.weight", std::int64_t(i), d) +
                              at("embeddings.token_type_embeddings.weight", 0, d));
        }
        x = normalised(x, "embeddings.LayerNorm");
        for (std::int64_t i = 0; i < tiny.layers; ++i) {
            const std::string layer = "encoder.layer." + std::to_string(i) + ".";
            x = normalised(sum(x, linear(attention(x, layer), layer + "attention.output.dense")),
                           layer + "attention.output.LayerNorm");
            matrix inner = linear(x, layer + "intermediate.dense");
            for (auto& row : inner)
                for (double& e : row) e = e / 2 * std::erfc(-e / std::sqrt(2.0));
            x = normalised(sum(x, linear(inner, layer + "output.dense")), layer + "output.LayerNorm");
        }
        std::vector<double> mean(static_cast<std::size_t>(tiny.width));
        for (const auto& row : x)
            for (std::size_t d = 0; d < mean.size(); ++d) mean[d] += row[d] / static_cast<double>(x.size());
        double squares = 0;
        for (const double e : mean) squares += e * e;
        for (double& e : mean) e /= std::sqrt(squares);
        return mean;
    }

private:
    double at(const std::string& name, std::int64_t row, std::int64_t column) const {
        const model_tensor& tensor = model_.at(name);
        return tensor.values.at(static_cast<std::size_t>(row * tensor.shape.back() + column));
    }
    matrix linear(const matrix& x, const std::string& name) const {
        const std::int64_t out = model_.at(name + ".weight").shape[0];
        matrix y(x.size());
        for (std::size_t i = 0; i < x.size(); ++i)
            for (std::int64_t o = 0; o < out; ++o) {
                double e = at(name + ".bias", 0, o);
                for (std::size_t n = 0; n < x[i].size(); ++n) e += x[i][n] * at(name + ".weight", o, std::int64_t(n));
                y[i].push_back(e);
            }
        return y;
    }
    matrix attention(const matrix& x, const std::string& layer) const {
        const matrix q = linear(x, layer + "attention.self.query"), k = linear(x, layer + "attention.self.key"),
                     v = linear(x, layer + "attention.self.value");
        const auto depth = static_cast<std::size_t>(tiny.width / tiny.heads);
        matrix out(x.size(), std::vector<double>(static_cast<std::size_t>(tiny.width)));
        for (std::size_t first = 0; first < out[0].size(); first += depth)
            for (std::size_t i = 0; i < x.size(); ++i) {
                std::vector<double> weights;
                double total = 0;
                for (std::size_t j = 0; j < x.size(); ++j) {
                    double score = 0;
                    for (std::size_t d = first; d < first + depth; ++d) score += q[i][d] * k[j][d];
                    total += weights.emplace_back(std::exp(score / std::sqrt(static_cast<double>(depth))));
                }
                for (std::size_t j = 0; j < x.size(); ++j)
                    for (std::size_t d = first; d < first + depth; ++d) out[i][d] += weights[j] / total * v[j][d];
            }
        return out;
    }
    static matrix sum(matrix x, const matrix& y) {
        for (std::size_t i = 0; i < x.size(); ++i)
            for (std::size_t d = 0; d < x[i].size(); ++d) x[i][d] += y[i][d];
        return x;
    }
    matrix normalised(matrix x, const std::string& name) const {
        for (auto& row : x) {
            double mean = 0, variance = 0;
            for (const double e : row) mean += e / static_cast<double>(row.size());
            for (const double e : row) variance += (e - mean) * (e - mean) / static_cast<double>(row.size());
            for (std::size_t d = 0; d < row.size(); ++d)
                row[d] = (row[d] - mean) / std::sqrt(variance + 1e-12) * at(name + ".weight", 0, std::int64_t(d)) +
                         at(name + ".bias", 0, std::int64_t(d));
        }
        return x;
    }

    const model_tensors& model_;
};

std::vector<tokens> sentences_of_lengths(std::initializer_list<std::size_t> lengths) {
    std::mt19937 random(7);
    std::uniform_int_distribution<std::int32_t> any(0, static_cast<std::int32_t>(tiny.vocabulary) - 1);
    std::vector<tokens> all;
    for (const std::size_t length : lengths)
        std::generate_n(std::back_inserter(all.emplace_back()), length, [&] { return any(random); });
    return all;
}

double difference(const float* row, const std::vector<double>& expected) {
    double most = 0;
    for (std::size_t d = 0; d < expected.size(); ++d) most = std::max(most, std::abs(row[d] - expected[d]));
    return most;
}

struct written_model {
    model_tensors tensors = random_model(tiny, 3);
    std::filesystem::path path = file_named("tiny.safetensors");
    written_model() { write(path, bytes_of(tensors)); }
};

}  // namespace

TEST_CASE("encoder: sentences of many lengths in one batch, against double precision") {
    const written_model model;
    const weights file(model.path);
    const encoder embeddings_of(file, tiny);
    const by_hand expected(model.tensors);
    const auto sentences = sentences_of_lengths({2, 150, 1, 47, 48, 49, 3, 64, 2, 96});
    const std::vector<float> rows = embeddings_of(sentences);
    REQUIRE(rows.size() == sentences.size() * 64);
    for (std::size_t s = 0; s < sentences.size(); ++s) {
        INFO("sentence " << s << " of " << sentences[s].size() << " tokens");
        const double off = difference(&rows[s * 64], expected(sentences[s]));
        CHECK(off < 5e-6);
    }
    CHECK(embeddings_of(std::vector<tokens>{}).empty());
}

TEST_CASE("encoder: more sentences than one batch holds") {
    const written_model model;
    const weights file(model.path);
    const encoder embeddings_of(file, tiny);
    const auto few = sentences_of_lengths({100, 7, 33});
    std::vector<tokens> many;
    for (int i = 0; i < 120; ++i) many.insert(many.end(), few.begin(), few.end());  // 16800 tokens
    const std::vector<float> once = embeddings_of(few), rows = embeddings_of(many);
    REQUIRE(rows.size() == many.size() * 64);
    float most = 0;
    for (std::size_t at = 0; at < rows.size(); ++at) most = std::max(most, std::abs(rows[at] - once[at % once.size()]));
    CHECK(most < 5e-6f);
}

TEST_CASE("encoder: models of other sizes are refused before anything is computed") {
    const written_model model;
    const weights file(model.path);
    const auto refuses = [&](const sizes& of, const std::string& sentence) {
        CHECK_THROWS_MATCHES(encoder(file, of), std::runtime_error,
                             MessageMatches(ContainsSubstring(model.path.string() + ": expected " + sentence)));
    };
    refuses({}, "embeddings.word_embeddings.weight of shape (30522, 384), got (40, 64)");
    sizes other = tiny;
    other.inner = 128;
    refuses(other, "encoder.layer.0.intermediate.dense.weight of shape (128, 64), got (96, 64)");
    other = tiny;
    other.layers = 3;
    refuses(other, "an f32 tensor encoder.layer.2.attention.self.query.weight, got none");
}

TEST_CASE("similar: the pairs of the greatest cosines, best first") {
    const float rows[] = {1, 0, 0, 1, 0.6f, 0.8f, -1, 0};
    const auto pairs = most_similar(rows, 2, 3);
    REQUIRE(pairs.size() == 3);
    CHECK((pairs[0].first == 1 && pairs[0].second == 2 && pairs[0].cosine == 0.8f));
    CHECK((pairs[1].first == 0 && pairs[1].second == 2 && pairs[1].cosine == 0.6f));
    CHECK((pairs[2].cosine == 0));
    CHECK(most_similar(rows, 2, 100).size() == 6);
    CHECK(most_similar(std::span(rows).first(2), 2, 5).empty());
}
