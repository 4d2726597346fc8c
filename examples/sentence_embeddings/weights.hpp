#pragma once
#include <attune/runtime/tensor.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace sentence_embeddings {

/// The f32 tensors of a .safetensors file, mapped: they are read from the disk when they are used, and shared with
/// whoever maps the file too.
class weights {
public:
    /// Throws std::runtime_error, `<path>: <what is wrong>`, where the file cannot be mapped, is truncated, or its
    /// header does not describe the bytes that follow. Tensors of other element types are left out.
    explicit weights(const std::filesystem::path& path);
    ~weights();
    weights(const weights&) = delete;
    weights& operator=(const weights&) = delete;

    /// The tensor of that name and shape, outermost axis first; throws std::runtime_error where there is none.
    attune::tensor get(const std::string& name, const std::vector<std::int64_t>& shape) const;

private:
    struct entry {
        std::vector<std::int64_t> shape;
        const float* data;
    };
    std::filesystem::path path_;
    void* mapped_ = nullptr;
    std::size_t size_ = 0;
    std::map<std::string, entry> tensors_;
};

}  // namespace sentence_embeddings
