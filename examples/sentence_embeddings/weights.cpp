#include "weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <stdexcept>

namespace sentence_embeddings {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
    throw std::runtime_error(path.string() + ": " + why);
}

struct descriptor {
    int file;
    ~descriptor() {
        if (file >= 0) close(file);
    }
};

/// Numbers that JSON wrote as such: neither negative nor broken.
std::vector<std::uint64_t> numbers(const json& list) {
    std::vector<std::uint64_t> all;
    for (const json& each : list) {
        if (!each.is_number_unsigned()) throw std::domain_error("not a size");
        all.push_back(each.get<std::uint64_t>());
    }
    return all;
}

/// Where a tensor's bytes begin; they are checked to be as many as its shape needs and to lie in the file.
std::uint64_t begin_of(const std::filesystem::path& path, const std::string& name, const json& entry,
                       std::vector<std::int64_t>& shape, std::uint64_t available) {
    std::vector<std::uint64_t> place;
    std::uint64_t bytes = sizeof(float);
    try {
        for (const std::uint64_t extent : numbers(entry.at("shape"))) {
            constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
            if (__builtin_mul_overflow(bytes, extent, &bytes) || extent > most) throw std::domain_error("not a size");
            shape.push_back(static_cast<std::int64_t>(extent));
        }
        place = numbers(entry.at("data_offsets"));
        if (place.size() != 2) throw std::domain_error("not a begin and an end");
    } catch (const std::exception&) {
        refuse(path, fmt::format("expected {} with a shape and two data_offsets, got {}", name,
                                 entry.dump(-1, ' ', true, json::error_handler_t::replace)));
    }
    if (place[1] > available)
        refuse(path, fmt::format("truncated: expected {} to end at byte {} of the data, got {} bytes of data", name,
                                 place[1], available));
    if (place[0] > place[1] || place[1] - place[0] != bytes)
        refuse(path, fmt::format("expected {} bytes for {}, got those from {} to {}", bytes, name, place[0], place[1]));
    if (place[0] % sizeof(float) != 0)
        refuse(path, fmt::format("expected {} to begin at a multiple of 4 bytes, got {}", name, place[0]));
    return place[0];
}

}  // namespace

weights::weights(const std::filesystem::path& path) : path_(path) {
    const descriptor opened{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    struct stat facts{};
    if (opened.file < 0 || fstat(opened.file, &facts) != 0 || !S_ISREG(facts.st_mode))
        refuse(path, "expected the weights of a model, a .safetensors file, got nothing that can be read");
    const auto size = static_cast<std::size_t>(facts.st_size);
    std::uint64_t header_bytes = 0;
    if (size < sizeof header_bytes)
        refuse(path,
               fmt::format("truncated: expected 8 bytes that say how long the header is, got {} bytes in all", size));
    void* const mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, opened.file, 0);
    if (mapped == MAP_FAILED) refuse(path, "cannot be mapped into memory");
    mapped_ = mapped, size_ = size;
    try {
        const char* const bytes = static_cast<const char*>(mapped);
        std::memcpy(&header_bytes, bytes, sizeof header_bytes);
        const std::uint64_t behind = size - sizeof header_bytes;
        if (header_bytes > behind)
            refuse(path, fmt::format("truncated: expected a header of {} bytes, got {}", header_bytes, behind));
        if (header_bytes % sizeof(float) != 0)
            refuse(path, fmt::format("expected a header whose length is a multiple of 4, got {} bytes", header_bytes));
        const char* const header = bytes + sizeof header_bytes;
        const json names = json::parse(header, header + header_bytes, nullptr, false);
        if (!names.is_object())
            refuse(path, "expected a header that is a JSON object, got something else; is this a .safetensors file?");
        const char* const data = header + header_bytes;
        for (const auto& [key, each] : names.items()) {
            // What models with a head of their own call their encoder.
            const std::string name = key.starts_with("bert.") ? key.substr(5) : key;
            if (name == "__metadata__" || !each.is_object() || each.value("dtype", json()) != "F32") continue;
            entry tensor;
            const std::uint64_t begin = begin_of(path, name, each, tensor.shape, behind - header_bytes);
            tensor.data = reinterpret_cast<const float*>(data + begin);
            tensors_.emplace(name, std::move(tensor));
        }
    } catch (...) {
        munmap(mapped_, size_);
        throw;
    }
}

weights::~weights() { munmap(mapped_, size_); }

attune::tensor weights::get(const std::string& name, const std::vector<std::int64_t>& shape) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end())
        refuse(path_, fmt::format("expected an f32 tensor {}, got none; is this a MiniLM-L6 sentence model?", name));
    if (found->second.shape != shape)
        refuse(path_, fmt::format("expected {} of shape ({}), got ({})", name, fmt::join(shape, ", "),
                                  fmt::join(found->second.shape, ", ")));
    return attune::tensor(found->second.data, shape);
}

}  // namespace sentence_embeddings
