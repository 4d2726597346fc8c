#pragma once
#include <attune/ir/element_type.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// A reader of .safetensors files: eight bytes of header length, a JSON header, the tensors' bytes.
namespace attune::support {

/// One tensor of a file, dense, outermost axis first. Its bytes are aligned for any element type.
struct file_tensor {
    std::string name;
    element_type element{};
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;

    std::int64_t count() const;
    /// The elements; T must be as large as one. Throws std::invalid_argument if it is not.
    template <class T> const T* as() const { return static_cast<const T*>(checked(sizeof(T))); }
    template <class T> T* as() { return static_cast<T*>(const_cast<void*>(checked(sizeof(T)))); }

private:
    const void* checked(std::size_t element_bytes) const;
};

/// A whole file in memory. Its metadata's fields, those of the golden files, are empty where a file does not have them.
struct tensor_file {
    std::filesystem::path path;
    std::vector<file_tensor> tensors;
    std::map<std::string, std::string> metadata;  ///< as written, all of it
    std::map<std::string, double> params;      ///< numbers of `params`; an array `a` is a_0, a_1, ...; text is left out
    std::map<std::string, double> tolerances;  ///< absolute, by output
    std::vector<std::string> inputs, outputs, debug;

    const file_tensor* find(std::string_view name) const;  ///< nullptr if there is none
    /// The tensor of that name; throws std::out_of_range, naming the file and the tensors that it has.
    const file_tensor& operator[](std::string_view name) const;
    /// Removes what is listed under `debug`, so that it cannot be bound by mistake.
    void drop_debug();
};

/// Reads a file. Throws std::runtime_error, `<path>: <what is wrong>`, where it cannot be opened, is truncated, its
/// header is not JSON or does not describe the bytes that follow (element types F32, I32, U8, BOOL, BF16, F16; offsets
/// in range, without overlap, of the size that the shape says).
tensor_file read_safetensors(const std::filesystem::path& path);

/// The same of bytes in memory; `path` is used in messages only.
tensor_file parse_safetensors(const std::filesystem::path& path, const std::vector<std::byte>& bytes);

}  // namespace attune::support
