#pragma once
#include "encoder.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

/// Models of a few kilobytes, to be written as .safetensors files.
namespace sentence_embeddings::testing {

struct model_tensor {
    std::vector<std::int64_t> shape;
    std::vector<float> values;
};
using model_tensors = std::map<std::string, model_tensor>;

/// All tensors of a model of those sizes: normal numbers, gains near 1.
model_tensors random_model(const sizes& of, unsigned seed);

/// A file of this test: its path, under a folder that only these tests write to.
std::filesystem::path file_named(const std::string& name);
void write(const std::filesystem::path& path, const std::string& bytes);
/// The bytes of a .safetensors file; the header is followed by what it describes.
std::string bytes_of(const model_tensors& tensors);
/// The same of a header written by hand.
std::string bytes_of(const std::string& header, const std::string& data);

}  // namespace sentence_embeddings::testing
