#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace language_model {

/// A model in GGUF, the files of llama.cpp (version 2 or 3, little endian): named values, then named tensors whose
/// weights are codes in blocks. Everything is checked when the file is read, so that what a reader gets lies in it.
class gguf {
public:
    /// How a tensor's elements lie in memory: `elements` of them in `bytes`.
    struct block {
        std::string_view name;
        std::uint32_t number;
        std::size_t elements, bytes;
    };
    /// Axes as the file has them, the innermost first. Rows along it are whole blocks.
    struct tensor {
        const block* type;
        std::vector<std::int64_t> extents;
        std::span<const std::byte> bytes;
        std::int64_t count() const;
        std::vector<float> row(std::int64_t number) const;  ///< as f32; rows of all outer axes are numbered from 0
        std::vector<float> all() const;                     ///< as f32, (.., outer, inner)
    };
    /// Integers and booleans, reals, text, and lists of each.
    using value = std::variant<std::int64_t, double, std::string_view, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<std::string_view>>;

    /// Maps a file. Throws std::runtime_error, `<path>: <what is wrong>`, where it is no GGUF, is truncated, or has
    /// what is unknown here.
    explicit gguf(const std::filesystem::path& path);
    /// The same of bytes in memory, which must outlive it.
    gguf(std::string name, std::span<const std::byte> bytes);
    ~gguf();
    gguf(const gguf&) = delete;
    gguf& operator=(const gguf&) = delete;

    const std::map<std::string, value, std::less<>>& values() const { return values_; }
    const std::map<std::string, tensor, std::less<>>& tensors() const { return tensors_; }

    /// A value of that name and kind. Throws std::runtime_error where there is none.
    template <class T> const T& get(std::string_view name) const {
        const auto found = values_.find(name);
        const T* const it = found == values_.end() ? nullptr : std::get_if<T>(&found->second);
        if (it == nullptr) refuse_missing(name);
        return *it;
    }
    template <class T> T get(std::string_view name, T otherwise) const {
        return values_.find(name) == values_.end() ? otherwise : get<T>(name);
    }
    /// A tensor of these extents, the innermost first. Throws std::runtime_error where there is none.
    const tensor& get_tensor(std::string_view name, const std::vector<std::int64_t>& extents) const;
    [[noreturn]] void refuse(const std::string& why) const;

private:
    void read();
    [[noreturn]] void refuse_missing(std::string_view name) const;

    std::string name_;
    std::span<const std::byte> file_;
    bool mapped_ = false;
    std::map<std::string, value, std::less<>> values_;
    std::map<std::string, tensor, std::less<>> tensors_;
};

}  // namespace language_model
