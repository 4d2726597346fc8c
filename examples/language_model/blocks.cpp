#include "blocks.hpp"

#include <array>
#include <bit>
#include <cstring>

// The layouts are those of ggml-common.h (ggml): scales are f16, codes of four bits stand two in a byte, the first half
// of a block (Q4_1, Q5_0) or of each 64 elements (Q4_K) in the low ones.
namespace language_model {
namespace {

using bytes = const std::uint8_t*;

float f32_of_half(std::uint16_t half) {
    const std::uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    const float magnitude =
        rest < 0x400 ? static_cast<float>(rest) * 0x1p-24f : std::bit_cast<float>((rest << 13) + (112u << 23));
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
}
std::uint16_t word(bytes at) { return static_cast<std::uint16_t>(at[0] | at[1] << 8); }
float half(bytes at) { return f32_of_half(word(at)); }

void f32(bytes at, float* to) { std::memcpy(to, at, sizeof *to); }
void f16(bytes at, float* to) { *to = half(at); }
void bf16(bytes at, float* to) { *to = std::bit_cast<float>(static_cast<std::uint32_t>(word(at)) << 16); }

void q4_0(bytes at, float* to) {
    for (int i = 0; i < 16; ++i) {
        to[i] = half(at) * static_cast<float>((at[2 + i] & 15) - 8);
        to[i + 16] = half(at) * static_cast<float>((at[2 + i] >> 4) - 8);
    }
}
void q4_1(bytes at, float* to) {
    for (int i = 0; i < 16; ++i) {
        to[i] = half(at) * static_cast<float>(at[4 + i] & 15) + half(at + 2);
        to[i + 16] = half(at) * static_cast<float>(at[4 + i] >> 4) + half(at + 2);
    }
}
void q5_0(bytes at, float* to) {
    const std::uint32_t fifth = word(at + 2) | static_cast<std::uint32_t>(word(at + 4)) << 16;
    for (int i = 0; i < 16; ++i) {
        to[i] = half(at) * static_cast<float>(static_cast<int>((at[6 + i] & 15u) | (fifth >> i & 1) << 4) - 16);
        to[i + 16] =
            half(at) * static_cast<float>(static_cast<int>((at[6 + i] >> 4) | (fifth >> (i + 16) & 1) << 4) - 16);
    }
}
void q8_0(bytes at, float* to) {
    for (int i = 0; i < 32; ++i) to[i] = half(at) * static_cast<float>(static_cast<std::int8_t>(at[2 + i]));
}

/// Scale and least value of the i-th 32 elements, of six bits each, in twelve bytes.
std::array<int, 2> scale_and_least(bytes at, int i) {
    if (i < 4) return {at[i] & 63, at[i + 4] & 63};
    return {(at[i + 4] & 15) | (at[i - 4] >> 6) << 4, (at[i + 4] >> 4) | (at[i] >> 6) << 4};
}
void q4_k(bytes at, float* to) {
    const float step = half(at), least_step = half(at + 2);
    for (int i = 0; i < 256; ++i) {
        const auto [scale, least] = scale_and_least(at + 4, i / 32);
        const int codes = at[16 + i / 64 * 32 + i % 32], code = i % 64 < 32 ? codes & 15 : codes >> 4;
        to[i] = step * static_cast<float>(scale) * static_cast<float>(code) - least_step * static_cast<float>(least);
    }
}
void q6_k(bytes at, float* to) {
    const float step = half(at + 208);
    for (int i = 0; i < 256; ++i) {
        const int part = i / 128, quarter = i % 128 / 32, place = i % 32;
        const int low = at[part * 64 + quarter % 2 * 32 + place], high = at[128 + part * 32 + place];
        const int code = (quarter < 2 ? low & 15 : low >> 4) | (high >> (2 * quarter) & 3) << 4;
        const auto scale = static_cast<std::int8_t>(at[192 + i / 16]);
        to[i] = step * static_cast<float>(scale) * static_cast<float>(code - 32);
    }
}

struct known {
    gguf::block of;
    void (*as_f32)(bytes, float*);
};
constexpr std::array<known, 9> types{{{{"F32", 0, 1, 4}, f32},
                                      {{"F16", 1, 1, 2}, f16},
                                      {{"Q4_0", 2, 32, 18}, q4_0},
                                      {{"Q4_1", 3, 32, 20}, q4_1},
                                      {{"Q5_0", 6, 32, 22}, q5_0},
                                      {{"Q8_0", 8, 32, 34}, q8_0},
                                      {{"Q4_K", 12, 256, 144}, q4_k},
                                      {{"Q6_K", 14, 256, 210}, q6_k},
                                      {{"BF16", 30, 1, 2}, bf16}}};

}  // namespace

const gguf::block* block_of(std::uint32_t number) {
    for (const known& each : types)
        if (each.of.number == number) return &each.of;
    return nullptr;
}

std::string known_blocks() {
    std::string all;
    for (const known& each : types) all += (all.empty() ? "" : ", ") + std::string(each.of.name);
    return all;
}

void as_f32(const gguf::block& type, std::span<const std::byte> blocks, std::span<float> to) {
    for (const known& each : types)
        if (each.of.number == type.number)
            for (std::size_t i = 0; i * type.elements < to.size(); ++i)
                each.as_f32(reinterpret_cast<bytes>(blocks.data()) + i * type.bytes, to.data() + i * type.elements);
}

}  // namespace language_model
