#include "model_file.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <functional>
#include <numeric>
#include <random>

namespace sentence_embeddings::testing {

model_tensors random_model(const sizes& of, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    model_tensors all;
    const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, float around, float spread) {
        const auto count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
        model_tensor& made = all[name] = {std::move(shape), std::vector<float>(static_cast<std::size_t>(count))};
        for (float& x : made.values) x = around + spread * normal(random);
    };
    const auto projection = [&](const std::string& name, std::int64_t out, std::int64_t in) {
        add(name + ".weight", {out, in}, 0, 0.3f);
        add(name + ".bias", {out}, 0, 0.5f);
    };
    const auto normalisation = [&](const std::string& name) {
        add(name + ".weight", {of.width}, 1, 0.2f);
        add(name + ".bias", {of.width}, 0, 0.2f);
    };
    add("embeddings.word_embeddings.weight", {of.vocabulary, of.width}, 0, 1);
    add("embeddings.position_embeddings.weight", {of.places, of.width}, 0, 1);
    add("embeddings.token_type_embeddings.weight", {2, of.width}, 0, 1);
    normalisation("embeddings.LayerNorm");
    for (std::int64_t i = 0; i < of.layers; ++i) {
        const std::string layer = "encoder.layer." + std::to_string(i) + ".";
        for (const char* name :
             {"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"})
            projection(layer + name, of.width, of.width);
        projection(layer + "intermediate.dense", of.inner, of.width);
        projection(layer + "output.dense", of.width, of.inner);
        normalisation(layer + "attention.output.LayerNorm");
        normalisation(layer + "output.LayerNorm");
    }
    return all;
}

std::filesystem::path file_named(const std::string& name) {
    const std::filesystem::path folder = ATTUNE_TEST_FOLDER "/files";
    std::filesystem::create_directories(folder);
    return folder / name;
}

void write(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream file(path, std::ios::binary);
    file << bytes;
    if (!file.flush()) throw std::runtime_error(path.string() + ": cannot be written");
}

std::string bytes_of(const std::string& header, const std::string& data) {
    const std::uint64_t length = header.size();
    std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
    return bytes.append(header).append(data);
}

std::string bytes_of(const model_tensors& tensors) {
    auto header = nlohmann::json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors) {
        const std::size_t begin = data.size();
        data.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
        header[name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
    }
    std::string text = header.dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    return bytes_of(text, data);
}

}  // namespace sentence_embeddings::testing
