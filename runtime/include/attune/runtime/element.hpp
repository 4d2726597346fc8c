#pragma once
#include <attune/ir/element_type.hpp>

#include <bit>
#include <cstdint>

namespace attune {

/// bfloat16 as it lies in memory: the upper half of a float. Converting from float rounds to nearest even.
struct bfloat16 {
    std::uint16_t bits{};

    bfloat16() = default;
    constexpr explicit bfloat16(float x) {
        const auto word = std::bit_cast<std::uint32_t>(x);
        const bool nan = (word & 0x7fffffffu) > 0x7f800000u;  // rounding up could carry a NaN into infinity
        bits = static_cast<std::uint16_t>(nan ? (word >> 16) | 0x40u : (word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
    }
    constexpr explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

/// IEEE half precision as it lies in memory. Converting from float rounds to nearest even; too large becomes infinity.
struct float16 {
    std::uint16_t bits{};

    float16() = default;
    constexpr explicit float16(float x) {
        const auto word = std::bit_cast<std::uint32_t>(x);
        const std::uint32_t sign = (word >> 16) & 0x8000u, magnitude = word & 0x7fffffffu;
        std::uint32_t half;
        if (magnitude > 0x7f800000u)
            half = 0x7e00u;
        else if (magnitude >= 0x477ff000u)
            half = 0x7c00u;  // from halfway between 65504 and 65536
        else if (magnitude >= 0x38800000u)
            half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
        else  // subnormal: adding 0.5 leaves the multiple of 2^-24 in the lowest bits, rounded by the addition itself
            half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
        bits = static_cast<std::uint16_t>(sign | half);
    }
    constexpr explicit operator float() const {
        const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
        if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
        if (magnitude >= 0x400u) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
        const float value = static_cast<float>(magnitude) * 0x1p-24f;
        return sign ? -value : value;
    }
};

/// The element type of C++ type T; `any` where attune has none.
template <class T> inline constexpr element_type element_of = element_type::any;
template <class T> inline constexpr element_type element_of<const T> = element_of<T>;
template <> inline constexpr element_type element_of<float> = element_type::f32;
template <> inline constexpr element_type element_of<bfloat16> = element_type::bf16;
template <> inline constexpr element_type element_of<float16> = element_type::f16;
template <> inline constexpr element_type element_of<std::int32_t> = element_type::i32;
template <> inline constexpr element_type element_of<std::uint8_t> = element_type::u8;
template <> inline constexpr element_type element_of<bool> = element_type::boolean;

template <class T>
concept element = element_of<T> != element_type::any;

}  // namespace attune
