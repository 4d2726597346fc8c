#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

/// Reading .safetensors files: eight bytes of header length, a JSON header, the tensors' bytes.
namespace attune::support {

/// A mapped file. Tensors are read from the disk when they are used, and shared with other processes that map the file.
class mapped_tensors {
public:
    /// Throws std::runtime_error, `<path>: <what is wrong>`, if the file cannot be mapped, is truncated, or its header
    /// does not describe the bytes that follow. Tensors of element types that attune does not know are left out.
    explicit mapped_tensors(const std::filesystem::path& path);
    ~mapped_tensors();
    mapped_tensors(const mapped_tensors&) = delete;
    mapped_tensors& operator=(const mapped_tensors&) = delete;

    /// Dense, outermost axis first. Its bytes may begin anywhere.
    struct tensor {
        std::string type;  ///< as the file spells it: "F32"
        std::vector<std::int64_t> shape;
        std::span<const std::byte> bytes;
    };
    const std::filesystem::path& path() const { return path_; }
    const std::map<std::string, tensor>& tensors() const { return tensors_; }
    const std::map<std::string, std::string>& metadata() const { return metadata_; }

private:
    void read();

    std::filesystem::path path_;
    std::span<const std::byte> file_;
    std::map<std::string, tensor> tensors_;
    std::map<std::string, std::string> metadata_;
};

}  // namespace attune::support
