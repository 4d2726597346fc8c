#pragma once
#include <attune/mapped_tensors.hpp>
#include <attune/runtime/tensor.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace sentence_embeddings {

/// The f32 tensors of a .safetensors file, mapped: they are read from the disk when they are used, and shared with
/// whoever maps the file too.
class weights {
public:
    /// Throws std::runtime_error, `<path>: <what is wrong>`, where the file cannot be mapped, is truncated, or its
    /// header does not describe the bytes that follow. Tensors of other element types are left out.
    explicit weights(const std::filesystem::path& path) : file_(path) {}

    /// The tensor of that name and shape, outermost axis first; throws std::runtime_error where there is none.
    attune::tensor get(const std::string& name, const std::vector<std::int64_t>& shape) const;

private:
    attune::support::mapped_tensors file_;
};

}  // namespace sentence_embeddings
