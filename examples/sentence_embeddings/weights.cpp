#include "weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

namespace sentence_embeddings {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) { throw std::runtime_error(path.string() + ": " + why); }

struct descriptor {
    int file;
    ~descriptor() {
        if (file >= 0) close(file);
    }
};

/// Where a tensor's bytes begin; they are checked to be as many as its shape needs and to lie in the file.
std::uint64_t begin_of(const std::filesystem::path& path, const std::string& name, const json& entry, std::vector<std::int64_t>& shape, std::uint64_t available) {
    try {
        shape = entry.at("shape").get<std::vector<std::int64_t>>();
        const auto place = entry.at("data_offsets").get<std::array<std::uint64_t, 2>>();
        std::uint64_t bytes = sizeof(float);
        for (const std::int64_t extent : shape)
            if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) refuse(path, fmt::format("{} has an impossible shape", name));
        if (place[1] > available) refuse(path, fmt::format("{} ends at byte {} of the data, of which there are {}: the file is truncated", name, place[1], available));
        if (place[0] > place[1] || place[1] - place[0] != bytes) refuse(path, fmt::format("{} needs {} bytes, its place has another size", name, bytes));
        if (place[0] % sizeof(float) != 0) refuse(path, fmt::format("{} does not lie at a multiple of 4 bytes", name));
        return place[0];
    } catch (const json::exception&) {
        refuse(path, fmt::format("expected {} with dtype, shape and data_offsets", name));
    }
}

}  // namespace

weights::weights(const std::filesystem::path& path) : path_(path) {
    const descriptor opened{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    struct stat facts {};
    if (opened.file < 0 || fstat(opened.file, &facts) != 0 || !S_ISREG(facts.st_mode)) refuse(path, "cannot be opened; expected the model's weights, a .safetensors file");
    const auto size = static_cast<std::size_t>(facts.st_size);
    std::uint64_t header_bytes = 0;
    if (size < sizeof header_bytes) refuse(path, fmt::format("truncated: expected 8 bytes of header length, got {} bytes in all", size));
    void* const mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, opened.file, 0);
    if (mapped == MAP_FAILED) refuse(path, "cannot be mapped into memory");
    mapped_ = mapped, size_ = size;
    try {
        const char* const bytes = static_cast<const char*>(mapped);
        std::memcpy(&header_bytes, bytes, sizeof header_bytes);
        const std::uint64_t behind = size - sizeof header_bytes;
        if (header_bytes > behind) refuse(path, fmt::format("truncated: expected a header of {} bytes, got {}", header_bytes, behind));
        if (header_bytes % sizeof(float) != 0) refuse(path, "its tensors do not lie at multiples of 4 bytes");
        const char* const header = bytes + sizeof header_bytes;
        const json names = json::parse(header, header + header_bytes, nullptr, false);
        if (!names.is_object()) refuse(path, "expected a header that is a JSON object; is this a .safetensors file?");
        const char* const data = header + header_bytes;
        for (const auto& [name, each] : names.items()) {
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
    if (found == tensors_.end()) refuse(path_, fmt::format("expected an f32 tensor {}; is this a MiniLM-L6 sentence model?", name));
    if (found->second.shape != shape) refuse(path_, fmt::format("expected {} of shape ({}), got ({})", name, fmt::join(shape, ", "), fmt::join(found->second.shape, ", ")));
    return attune::tensor(found->second.data, shape);
}

}  // namespace sentence_embeddings
