#include <attune/mapped_tensors.hpp>

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <stdexcept>

namespace attune::support {
namespace {

using nlohmann::json;

struct descriptor {
    int file;
    ~descriptor() {
        if (file >= 0) close(file);
    }
};

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
    throw std::runtime_error(path.string() + ": " + why);
}

/// Bytes of an element; 0 for a type that is unknown here.
std::uint64_t bytes_of(const json& type) {
    static const std::map<std::string, std::uint64_t> known{{"F32", 4}, {"BF16", 2}, {"F16", 2},    {"I32", 4},
                                                            {"U8", 1},  {"BOOL", 1}, {"I8", 1},     {"F8_E4M3", 1},
                                                            {"I64", 8}, {"F64", 8},  {"F8_E5M2", 1}};
    const auto found = type.is_string() ? known.find(type.get<std::string>()) : known.end();
    return found == known.end() ? 0 : found->second;
}

/// Numbers that JSON wrote as such: neither negative nor broken.
std::vector<std::uint64_t> numbers(const json& list) {
    if (!list.is_array()) throw std::domain_error("not a list");
    std::vector<std::uint64_t> all;
    for (const json& each : list) {
        if (!each.is_number_unsigned()) throw std::domain_error("not a size");
        all.push_back(each.get<std::uint64_t>());
    }
    return all;
}

/// The place of an entry's tensor, checked against its shape and the bytes of the file.
mapped_tensors::tensor tensor_of(const std::filesystem::path& path, const std::string& name, const json& entry,
                                 std::uint64_t element, std::span<const std::byte> data) {
    mapped_tensors::tensor made{entry.at("dtype").get<std::string>(), {}, {}};
    std::vector<std::uint64_t> place;
    std::uint64_t bytes = element;
    try {
        for (const std::uint64_t extent : numbers(entry.at("shape"))) {
            constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
            if (__builtin_mul_overflow(bytes, extent, &bytes) || extent > most) throw std::domain_error("not a size");
            made.shape.push_back(static_cast<std::int64_t>(extent));
        }
        place = numbers(entry.at("data_offsets"));
        if (place.size() != 2) throw std::domain_error("not a begin and an end");
    } catch (const std::exception&) {
        refuse(path, "expected " + name + " with a shape and two data_offsets, got " +
                         entry.dump(-1, ' ', true, json::error_handler_t::replace));
    }
    const std::string from = std::to_string(place[0]), to = std::to_string(place[1]);
    if (place[1] > data.size())
        refuse(path, "truncated: expected " + name + " to end at byte " + to + " of the data, got " +
                         std::to_string(data.size()) + " bytes of data");
    if (place[0] > place[1] || place[1] - place[0] != bytes)
        refuse(path,
               "expected " + std::to_string(bytes) + " bytes for " + name + ", got those from " + from + " to " + to);
    made.bytes = data.subspan(place[0], bytes);
    return made;
}

}  // namespace

mapped_tensors::mapped_tensors(const std::filesystem::path& path) : path_(path) {
    const descriptor opened{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    struct stat facts{};
    if (opened.file < 0 || fstat(opened.file, &facts) != 0 || !S_ISREG(facts.st_mode))
        refuse(path, "expected a .safetensors file, got nothing that can be read");
    const auto size = static_cast<std::size_t>(facts.st_size);
    if (size < sizeof(std::uint64_t))
        refuse(path, "truncated: expected 8 bytes that say how long the header is, got " + std::to_string(size) +
                         " bytes in all");
    void* const mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, opened.file, 0);
    if (mapped == MAP_FAILED) refuse(path, "cannot be mapped into memory");
    file_ = {static_cast<const std::byte*>(mapped), size};
    try {
        read();
    } catch (...) {
        munmap(mapped, size);
        throw;
    }
}

mapped_tensors::~mapped_tensors() { munmap(const_cast<std::byte*>(file_.data()), file_.size()); }

void mapped_tensors::read() {
    std::uint64_t length = 0;
    std::memcpy(&length, file_.data(), sizeof length);
    const std::uint64_t behind = file_.size() - sizeof length;
    if (length > behind)
        refuse(path_,
               "truncated: expected a header of " + std::to_string(length) + " bytes, got " + std::to_string(behind));
    const auto* const text = reinterpret_cast<const char*>(file_.data()) + sizeof length;
    const json header = json::parse(text, text + length, nullptr, false);
    if (!header.is_object())
        refuse(path_, "expected a header that is a JSON object, got something else; is this a .safetensors file?");
    const std::span<const std::byte> data = file_.subspan(sizeof length + length);
    for (const auto& [name, entry] : header.items()) {
        if (!entry.is_object()) continue;
        if (name == "__metadata__") {
            for (const auto& [key, value] : entry.items())
                if (value.is_string()) metadata_.emplace(key, value.get<std::string>());
            continue;
        }
        const std::uint64_t element = bytes_of(entry.value("dtype", json()));
        if (element == 0) continue;
        tensors_.emplace(name, tensor_of(path_, name, entry, element, data));
    }
}

}  // namespace attune::support
