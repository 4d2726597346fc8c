#include "inspect/png.hpp"

#include <algorithm>

namespace attune::generators::inline inspect {
namespace {

void put_number(std::string& to, std::uint32_t x) {
    for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(x >> shift & 255);
}

std::uint32_t cyclic_redundancy(const std::string& of) {
    std::uint32_t crc = ~0u;
    for (const char c : of) {
        crc ^= static_cast<std::uint8_t>(c);
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

void put_chunk(std::string& to, const std::string& type, const std::string& data) {
    put_number(to, static_cast<std::uint32_t>(data.size()));
    to += type + data;
    put_number(to, cyclic_redundancy(type + data));
}

/// A zlib stream that says how many bytes follow, and the bytes: a few bits a cell need no compression.
std::string stored(const std::string& bytes) {
    std::string stream = "\x78\x01";
    for (std::size_t at = 0; at < bytes.size();) {
        const std::size_t length = std::min<std::size_t>(bytes.size() - at, 65535);
        stream += at + length == bytes.size() ? '\1' : '\0';
        for (const std::size_t x : {length, ~length})
            stream += static_cast<char>(x & 255), stream += static_cast<char>(x >> 8 & 255);
        stream.append(bytes, at, length);
        at += length;
    }
    std::uint32_t a = 1, b = 0;
    for (const char c : bytes) a = (a + static_cast<std::uint8_t>(c)) % 65521, b = (b + a) % 65521;
    put_number(stream, b << 16 | a);
    return stream;
}

std::string base64(const std::string& bytes) {
    constexpr const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        std::uint32_t group = 0;
        for (std::size_t i = 0; i < 3; ++i)
            group = group << 8 | (at + i < bytes.size() ? static_cast<std::uint8_t>(bytes[at + i]) : 0);
        for (std::size_t i = 0; i < 4; ++i) text += at + i > bytes.size() ? '=' : digits[group >> (18 - 6 * i) & 63];
    }
    return text;
}

}  // namespace

std::string png_address(const std::vector<std::uint8_t>& cells, int width, int height,
                        const std::vector<std::array<std::uint8_t, 3>>& palette) {
    const int bits = palette.size() <= 2 ? 1 : palette.size() <= 4 ? 2 : palette.size() <= 16 ? 4 : 8;
    std::string rows;
    for (int y = 0; y < height; ++y) {
        rows += '\0';  // not filtered
        for (int x = 0; x < width; x += 8 / bits) {
            int byte = 0;
            for (int i = 0; i < 8 / bits; ++i)
                byte = byte << bits |
                       (x + i < width ? cells[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                                              static_cast<std::size_t>(x + i)]
                                      : 0);
            rows += static_cast<char>(byte);
        }
    }
    std::string head, colours, png = "\x89PNG\r\n\x1a\n";
    put_number(head, static_cast<std::uint32_t>(width)), put_number(head, static_cast<std::uint32_t>(height));
    head += static_cast<char>(bits), head += '\3', head.append(3, '\0');
    for (const auto& colour : palette)
        for (const std::uint8_t part : colour) colours += static_cast<char>(part);
    put_chunk(png, "IHDR", head), put_chunk(png, "PLTE", colours), put_chunk(png, "IDAT", stored(rows)),
        put_chunk(png, "IEND", "");
    return "data:image/png;base64," + base64(png);
}

}  // namespace attune::generators::inline inspect
