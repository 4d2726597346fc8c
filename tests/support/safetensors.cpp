#include "safetensors.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <optional>
#include <stdexcept>

namespace attune::support {
namespace {

using nlohmann::json;
static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

struct failure {
    const std::filesystem::path& path;
    [[noreturn]] void operator()(const std::string& what) const {
        throw std::runtime_error(path.string() + ": " + what);
    }
};

std::optional<element_type> element_of(std::string_view dtype) {
    constexpr std::pair<std::string_view, element_type> known[] = {
        {"F32", element_type::f32},      {"I32", element_type::i32},   {"U8", element_type::u8},
        {"BOOL", element_type::boolean}, {"BF16", element_type::bf16}, {"F16", element_type::f16},
    };
    for (const auto& [name, type] : known)
        if (name == dtype) return type;
    return std::nullopt;
}

/// Bytes of a dense tensor; nothing if an extent is negative or the product overflows.
std::optional<std::uint64_t> size_of(const std::vector<std::int64_t>& shape, element_type element) {
    std::uint64_t size = static_cast<std::uint64_t>(bytes_of(element));
    for (std::int64_t extent : shape)
        if (extent < 0 || __builtin_mul_overflow(size, static_cast<std::uint64_t>(extent), &size)) return std::nullopt;
    return size;
}

struct range {
    std::uint64_t begin{}, end{};
    std::string name;
};

file_tensor read_tensor(const failure& fail, const std::string& name, const json& entry, const std::byte* data,
                        std::uint64_t available, range& place) {
    const std::string who = "tensor `" + name + "`: ";
    if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets"))
        fail(who + "expected an object with dtype, shape and data_offsets");
    if (!entry["dtype"].is_string()) fail(who + "dtype is not a string");
    const auto dtype = entry["dtype"].get<std::string>();
    const auto element = element_of(dtype);
    if (!element) fail(who + "unknown element type " + dtype);
    file_tensor t{name, *element, {}, {}};

    if (!entry["shape"].is_array()) fail(who + "shape is not an array");
    for (const json& extent : entry["shape"]) {
        if (!extent.is_number_integer()) fail(who + "an extent is not an integer");
        t.shape.push_back(extent.get<std::int64_t>());
    }
    const json& offsets = entry["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned())
        fail(who + "data_offsets are not two non-negative integers");
    place = {offsets[0].get<std::uint64_t>(), offsets[1].get<std::uint64_t>(), name};
    if (place.begin > place.end) fail(who + "data_offsets run backwards");
    if (place.end > available)
        fail(who + "ends at byte " + std::to_string(place.end) + " of the data, of which there are " +
             std::to_string(available) + " (truncated file?)");
    const auto size = size_of(t.shape, *element);
    if (!size || *size != place.end - place.begin)
        fail(who + "its shape needs " + (size ? std::to_string(*size) : std::string("an impossible number of")) +
             " bytes, data_offsets hold " + std::to_string(place.end - place.begin));
    t.bytes.assign(data + place.begin, data + place.end);
    return t;
}

/// A metadata field that is JSON in a string, as golden files have them.
json field(const failure& fail, const tensor_file& file, const std::string& name) {
    const auto found = file.metadata.find(name);
    if (found == file.metadata.end()) return {};
    json parsed = json::parse(found->second, nullptr, false);
    if (parsed.is_discarded()) fail("metadata `" + name + "` is not JSON");
    return parsed;
}

std::vector<std::string> names(const failure& fail, const tensor_file& file, const std::string& field_name) {
    const json list = field(fail, file, field_name);
    std::vector<std::string> result;
    if (list.is_null()) return result;
    if (!list.is_array()) fail("metadata `" + field_name + "` is not a list");
    for (const json& item : list) {
        if (!item.is_string()) fail("metadata `" + field_name + "` has an item that is not a name");
        result.push_back(item.get<std::string>());
    }
    return result;
}

void flatten(const std::string& name, const json& value, std::map<std::string, double>& into) {
    if (value.is_number())
        into[name] = value.get<double>();
    else if (value.is_boolean())
        into[name] = value.get<bool>() ? 1 : 0;
    else if (value.is_array())
        for (std::size_t i = 0; i < value.size(); ++i) flatten(name + "_" + std::to_string(i), value[i], into);
}

std::map<std::string, double> numbers(const failure& fail, const tensor_file& file, const std::string& field_name) {
    const json object = field(fail, file, field_name);
    std::map<std::string, double> result;
    if (object.is_null()) return result;
    if (!object.is_object()) fail("metadata `" + field_name + "` is not an object");
    for (const auto& [name, value] : object.items()) flatten(name, value, result);
    return result;
}

}  // namespace

std::int64_t file_tensor::count() const {
    std::int64_t n = 1;
    for (std::int64_t extent : shape) n *= extent;
    return n;
}

const void* file_tensor::checked(std::size_t element_bytes) const {
    if (element_bytes != static_cast<std::size_t>(bytes_of(element)))
        throw std::invalid_argument("tensor `" + name + "` has elements of type " + std::string(name_of(element)));
    return bytes.data();
}

const file_tensor* tensor_file::find(std::string_view name) const {
    const auto found = std::ranges::find(tensors, name, &file_tensor::name);
    return found == tensors.end() ? nullptr : &*found;
}

const file_tensor& tensor_file::operator[](std::string_view name) const {
    if (const file_tensor* t = find(name)) return *t;
    std::string known;
    for (const file_tensor& t : tensors) known += (known.empty() ? "" : ", ") + t.name;
    throw std::out_of_range(path.string() + ": no tensor `" + std::string(name) + "`, only " + known);
}

void tensor_file::drop_debug() {
    std::erase_if(tensors, [this](const file_tensor& t) { return std::ranges::find(debug, t.name) != debug.end(); });
}

tensor_file parse_safetensors(const std::filesystem::path& path, const std::vector<std::byte>& bytes) {
    const failure fail{path};
    if (bytes.size() < 8)
        fail("truncated: a safetensors file starts with 8 bytes of header length, this one has " +
             std::to_string(bytes.size()));
    std::uint64_t header_size = 0;
    std::memcpy(&header_size, bytes.data(), 8);
    if (header_size > bytes.size() - 8)
        fail("truncated: the header should be " + std::to_string(header_size) + " bytes long, " +
             std::to_string(bytes.size() - 8) + " are left");
    const char* text = reinterpret_cast<const char*>(bytes.data()) + 8;
    const json header = json::parse(text, text + header_size, nullptr, false);
    if (header.is_discarded() || !header.is_object()) fail("the header is not a JSON object");

    tensor_file file;
    file.path = path;
    std::vector<range> places;
    const std::uint64_t available = bytes.size() - 8 - header_size;
    for (const auto& [name, entry] : header.items()) {
        if (name == "__metadata__") {
            if (!entry.is_object()) fail("__metadata__ is not an object");
            for (const auto& [key, value] : entry.items()) {
                if (!value.is_string()) fail("metadata `" + key + "` is not a string");
                file.metadata[key] = value.get<std::string>();
            }
        } else {
            file.tensors.push_back(
                read_tensor(fail, name, entry, bytes.data() + 8 + header_size, available, places.emplace_back()));
        }
    }
    std::ranges::sort(places, {}, &range::begin);
    for (std::size_t i = 1; i < places.size(); ++i)
        if (places[i].begin < places[i - 1].end)
            fail("tensors `" + places[i - 1].name + "` and `" + places[i].name + "` overlap");

    file.params = numbers(fail, file, "params");
    file.tolerances = numbers(fail, file, "tolerances");
    file.inputs = names(fail, file, "inputs");
    file.outputs = names(fail, file, "outputs");
    file.debug = names(fail, file, "debug");
    return file;
}

tensor_file read_safetensors(const std::filesystem::path& path) {
    const failure fail{path};
    std::ifstream in(path, std::ios::binary | std::ios::ate);
    if (!in || std::filesystem::is_directory(path)) fail("cannot be opened");
    const auto size = static_cast<std::size_t>(in.tellg());
    std::vector<std::byte> bytes(size);
    in.seekg(0);
    in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
    if (!in) fail("cannot be read to its end");
    return parse_safetensors(path, bytes);
}

}  // namespace attune::support
