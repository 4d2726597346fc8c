#pragma once
#include <attune/ir/element_type.hpp>

#include <bit>
#include <cstdint>
#include <limits>

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

namespace detail {
/// An f32 as a byte, rounded to nearest even: a sign, exponents from 2^lowest on, and so many bits of fraction. `most`
/// is the largest finite magnitude. `beyond` is stored for larger ones, `nan` for NaN.
constexpr std::uint8_t byte_from(float x, int lowest, int fraction, std::uint32_t most, std::uint32_t beyond,
                                 std::uint32_t nan) {
    const auto word = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t magnitude = word & 0x7fffffffu, sign = (word >> 24) & 0x80u;
    const int shift = 23 - fraction;
    const auto power = [](int exponent) { return static_cast<std::uint32_t>(exponent + 127) << 23; };
    std::uint32_t byte;
    if (magnitude > 0x7f800000u) {
        byte = nan;
    } else if (magnitude < power(lowest)) {  // subnormal: the addition rounds to a multiple of the smallest
        const std::uint32_t ulp_is_smallest = power(lowest + shift);
        byte = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(ulp_is_smallest)) -
               ulp_is_smallest;
    } else {
        const std::uint32_t from_lowest = magnitude - power(lowest - 1);
        byte = (from_lowest + ((1u << (shift - 1)) - 1) + ((from_lowest >> shift) & 1u)) >> shift;
        if (byte > most) byte = beyond;
    }
    return static_cast<std::uint8_t>(sign | byte);
}
}  // namespace detail

/// float8_e4m3fn as it lies in memory. Converting from float rounds to nearest even; beyond 448 it becomes NaN, as
/// PyTorch's does: there is no infinity.
struct float8_e4m3 {
    std::uint8_t bits{};

    float8_e4m3() = default;
    constexpr explicit float8_e4m3(float x) : bits(detail::byte_from(x, -6, 3, 0x7e, 0x7f, 0x7f)) {}
    constexpr explicit operator float() const {
        float16 same;  // the same fields, whose exponents begin 8 lower
        same.bits = static_cast<std::uint16_t>((bits & 0x7fu) << 7 | (bits & 0x80u) << 8);
        return (bits & 0x7fu) == 0x7fu ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(same) * 256.0f;
    }
};

/// float8_e5m2 as it lies in memory: the upper half of an f16. Converting from float rounds to nearest even; too large
/// becomes infinity.
struct float8_e5m2 {
    std::uint8_t bits{};

    float8_e5m2() = default;
    constexpr explicit float8_e5m2(float x) : bits(detail::byte_from(x, -14, 2, 0x7b, 0x7c, 0x7e)) {}
    constexpr explicit operator float() const {
        float16 same;
        same.bits = static_cast<std::uint16_t>(bits << 8);
        return static_cast<float>(same);
    }
};

/// What the last bits of an integer are as an element: the integer that they are, and the real.
constexpr std::int32_t integer_from_bits(element_type e, std::uint32_t bits) {
    return e == element_type::i8 ? static_cast<std::int8_t>(bits) : static_cast<std::int16_t>(bits);
}
constexpr float real_from_bits(element_type e, std::uint32_t bits) {
    const auto as = [bits]<class T>(T x) {
        x.bits = static_cast<decltype(x.bits)>(bits);
        return static_cast<float>(x);
    };
    if (e == element_type::bf16) return as(bfloat16{});
    if (e == element_type::f16) return as(float16{});
    if (e == element_type::f8_e4m3) return as(float8_e4m3{});
    if (e == element_type::f8_e5m2) return as(float8_e5m2{});
    return std::bit_cast<float>(bits);
}

/// The element type of C++ type T; `any` where attune has none.
template <class T> inline constexpr element_type element_of = element_type::any;
template <class T> inline constexpr element_type element_of<const T> = element_of<T>;
template <> inline constexpr element_type element_of<float> = element_type::f32;
template <> inline constexpr element_type element_of<bfloat16> = element_type::bf16;
template <> inline constexpr element_type element_of<float16> = element_type::f16;
template <> inline constexpr element_type element_of<std::int32_t> = element_type::i32;
template <> inline constexpr element_type element_of<std::uint8_t> = element_type::u8;
template <> inline constexpr element_type element_of<bool> = element_type::boolean;
template <> inline constexpr element_type element_of<std::int8_t> = element_type::i8;
template <> inline constexpr element_type element_of<std::int64_t> = element_type::i64;
template <> inline constexpr element_type element_of<std::int16_t> = element_type::i16;
template <> inline constexpr element_type element_of<float8_e4m3> = element_type::f8_e4m3;
template <> inline constexpr element_type element_of<float8_e5m2> = element_type::f8_e5m2;

template <class T>
concept element = element_of<T> != element_type::any;

}  // namespace attune
