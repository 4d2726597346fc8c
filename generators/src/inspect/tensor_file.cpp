#include "inspect/tensor_file.hpp"

#include <attune/mapped_tensors.hpp>

#include <nlohmann/json.hpp>

#include <cstring>

namespace attune::generators::inline inspect {
namespace {

using nlohmann::json;

/// The element type of an input, from its name in a file; 64-bit integers become 32-bit ones.
constexpr struct {
    std::string_view name;
    element_type element;
    std::size_t bytes;
} stored_types[] = {{"F32", element_type::f32, 4},         {"BF16", element_type::bf16, 2},
                    {"F16", element_type::f16, 2},         {"I32", element_type::i32, 4},
                    {"U8", element_type::u8, 1},           {"BOOL", element_type::boolean, 1},
                    {"I8", element_type::i8, 1},           {"F8_E4M3", element_type::f8_e4m3, 1},
                    {"F8_E5M2", element_type::f8_e5m2, 1}, {"I64", element_type::i32, 8}};

/// An array `a` is a_0, a_1, ...
void note_numbers(std::map<std::string, double>& numbers, const std::string& name, const json& value) {
    if (value.is_number()) numbers[name] = value.get<double>();
    if (value.is_array())
        for (std::size_t i = 0; i < value.size(); ++i) note_numbers(numbers, name + "_" + std::to_string(i), value[i]);
}

}  // namespace

tensor_file read_tensor_file(const std::string& path) {
    const support::mapped_tensors mapped(path);
    tensor_file file;
    for (const auto& [name, tensor] : mapped.tensors())
        for (const auto& stored : stored_types) {
            if (tensor.type != stored.name) continue;
            const std::size_t count = tensor.bytes.size() / stored.bytes,
                              width = static_cast<std::size_t>(bytes_of(stored.element));
            dense_tensor& made = file.tensors[name] = {stored.element, tensor.shape, {}};
            made.bytes.resize(count * width);
            for (std::size_t i = 0; i < count; ++i)  // little-endian: the low half of 64 bits
                std::memcpy(&made.bytes[i * width], &tensor.bytes[i * stored.bytes], width);
        }
    const auto metadata = mapped.metadata().find("params");
    if (metadata == mapped.metadata().end()) return file;
    const json params = json::parse(metadata->second, nullptr, false);
    if (params.is_object())
        for (const auto& [name, value] : params.items()) note_numbers(file.numbers, name, value);
    return file;
}

}  // namespace attune::generators::inline inspect
