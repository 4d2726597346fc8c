#include "inspect/tensor_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>

namespace attune::generators {
namespace {

using nlohmann::json;

struct stored_type {
    const char* name;
    element_type element;
    std::size_t bytes;
};
constexpr stored_type stored_types[] = {{"F32", element_type::f32, 4},         {"BF16", element_type::bf16, 2},
                                        {"F16", element_type::f16, 2},         {"I32", element_type::i32, 4},
                                        {"U8", element_type::u8, 1},           {"BOOL", element_type::boolean, 1},
                                        {"I8", element_type::i8, 1},           {"F8_E4M3", element_type::f8_e4m3, 1},
                                        {"F8_E5M2", element_type::f8_e5m2, 1}, {"I64", element_type::i32, 8}};

/// Nothing where the entry does not describe bytes of the file.
std::optional<stored_tensor> tensor_of(const json& entry, const stored_type& type, const char* data,
                                       std::size_t available) {
    const auto shape = entry.find("shape"), place = entry.find("data_offsets");
    if (shape == entry.end() || !shape->is_array() || place == entry.end() || !place->is_array() || place->size() != 2)
        return std::nullopt;
    stored_tensor tensor{type.element, {}, {}};
    std::size_t size = type.bytes;
    for (const json& extent : *shape) {
        if (!extent.is_number_unsigned() || __builtin_mul_overflow(size, extent.get<std::size_t>(), &size))
            return std::nullopt;
        tensor.shape.push_back(extent.get<std::int64_t>());
    }
    const json &first = (*place)[0], &last = (*place)[1];
    if (!first.is_number_unsigned() || !last.is_number_unsigned()) return std::nullopt;
    const auto begin = first.get<std::size_t>(), end = last.get<std::size_t>();
    if (begin > end || end > available || end - begin != size) return std::nullopt;
    const std::size_t count = size / type.bytes, width = static_cast<std::size_t>(bytes_of(type.element));
    tensor.bytes.resize(count * width);
    for (std::size_t i = 0; i < count; ++i)
        std::memcpy(&tensor.bytes[i * width], data + begin + i * type.bytes,
                    width);  // little-endian: the low half of 64 bits
    return tensor;
}

/// An array `a` is a_0, a_1, ...
void note_numbers(std::map<std::string, double>& numbers, const std::string& name, const json& value) {
    if (value.is_number()) numbers[name] = value.get<double>();
    if (value.is_array())
        for (std::size_t i = 0; i < value.size(); ++i) note_numbers(numbers, name + "_" + std::to_string(i), value[i]);
}

}  // namespace

tensor_file read_tensor_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const auto refuse = [&](const std::string& why) {
        throw std::runtime_error("expected a .safetensors file, got \"" + path + "\", " + why);
    };
    if (!in) refuse("which cannot be read");
    std::uint64_t length = 0;
    if (bytes.size() < sizeof length) refuse("which is too short");
    std::memcpy(&length, bytes.data(), sizeof length);
    if (length > bytes.size() - sizeof length) refuse("which is truncated");
    const char* const text = bytes.data() + sizeof length;
    const json header = json::parse(text, text + length, nullptr, false);
    if (!header.is_object()) refuse("whose header is not JSON");

    tensor_file file;
    for (const auto& [name, entry] : header.items()) {
        if (name == "__metadata__" || !entry.is_object()) continue;
        const auto named = std::find_if(std::begin(stored_types), std::end(stored_types),
                                        [&](const stored_type& t) { return entry.value("dtype", json()) == t.name; });
        if (named == std::end(stored_types)) continue;
        auto tensor = tensor_of(entry, *named, text + length, bytes.size() - sizeof length - length);
        if (!tensor) refuse("whose tensor \"" + name + "\" does not fit its header");
        file.tensors.emplace(name, std::move(*tensor));
    }
    const json metadata = header.value("__metadata__", json::object());
    const json params = metadata.is_object() && metadata.contains("params") && metadata["params"].is_string()
                            ? json::parse(metadata["params"].get<std::string>(), nullptr, false)
                            : json();
    if (params.is_object())
        for (const auto& [name, value] : params.items()) note_numbers(file.numbers, name, value);
    return file;
}

}  // namespace attune::generators
