#include "image.hpp"

#include <cstring>
#include <stdexcept>

namespace ptx {
namespace {

constexpr std::uint32_t magic = 0xba55ed50;
constexpr std::size_t header_bytes = 16;
enum flag : std::uint64_t { by_lz4 = 1u << 13, by_zstd = 1u << 15 };

[[noreturn]] void refuse(const std::string& got) {
    throw std::runtime_error("expected PTX or a fat binary of CUDA, got " + got);
}

template <class T> T read(std::string_view bytes, std::size_t at) {
    if (at + sizeof(T) > bytes.size()) refuse("one that ends too early");
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

/// The place where a part's header has this.
enum place : std::size_t { of_kind = 0, of_header_size = 4, of_size = 8, of_packed_size = 16, of_card = 28 };
enum further : std::size_t { of_flags = 40, of_unpacked_size = 56, least_header = 64 };

/// A block of LZ4: words that are copied from the input, and words that were there before.
std::string unpacked(std::string_view packed, std::size_t size) {
    std::string all;
    all.reserve(size);
    std::size_t at = 0;
    const auto byte = [&] { return read<std::uint8_t>(packed, at++); };
    const auto length = [&](std::size_t begun) {
        if (begun != 15) return begun;
        for (std::uint8_t more = 255; more == 255;) begun += more = byte();
        return begun;
    };
    while (at < packed.size()) {
        const std::uint8_t token = byte();
        const std::size_t literals = length(token >> 4);
        if (literals > packed.size() - at || all.size() + literals > size) refuse("a part that is damaged");
        all.append(packed.substr(at, literals));
        at += literals;
        if (at == packed.size()) break;
        const std::size_t back = read<std::uint16_t>(packed, at);
        at += 2;
        const std::size_t matched = length(token & 15) + 4;
        if (back == 0 || back > all.size() || all.size() + matched > size) refuse("a part that is damaged");
        for (std::size_t n = 0; n < matched; ++n) all.push_back(all[all.size() - back]);
    }
    if (all.size() != size) refuse("a part that is damaged");
    return all;
}

}  // namespace

std::vector<image_part> parts_of(std::string_view image) {
    if (read<std::uint32_t>(image, 0) != magic) refuse("something else");
    std::vector<image_part> parts;
    for (std::size_t at = header_bytes; at < image.size();) {
        const std::string_view part = image.substr(at);
        const std::size_t header = read<std::uint32_t>(part, of_header_size), size = read<std::uint64_t>(part, of_size);
        if (header < least_header || header > part.size() || size > part.size() - header)
            refuse("one that ends too early");
        const auto is = read<image_part::kind>(part, of_kind);
        const auto flags = read<std::uint64_t>(part, of_flags);
        if (flags & by_zstd) refuse("a part that is compressed by zstd; try fatbinary --compress-mode=speed");
        std::string_view bytes = part.substr(header, size);
        std::string whole(bytes);
        if (flags & by_lz4)
            whole = unpacked(bytes.substr(0, read<std::uint32_t>(part, of_packed_size)),
                             read<std::uint64_t>(part, of_unpacked_size));
        parts.push_back({is, read<std::uint32_t>(part, of_card), std::move(whole)});
        at += header + size;
    }
    return parts;
}

std::string text_of_image(const void* image) {
    const auto* const bytes = static_cast<const char*>(image);
    std::uint32_t first;
    std::memcpy(&first, bytes, sizeof first);
    if (first != magic) return bytes;
    std::uint64_t size;
    std::memcpy(&size, bytes + header_bytes - sizeof size, sizeof size);
    for (const image_part& part : parts_of({bytes, header_bytes + size}))
        if (part.is == image_part::kind::text) return part.bytes.c_str();  // zeros fill it up
    refuse("one without PTX, which is what this device runs");
}

}  // namespace ptx
