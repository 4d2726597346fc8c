#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

/// Numbers as a CUDA device rounds, converts and divides them.
namespace ptx {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

inline float from_bf16(u16 bits) { return std::bit_cast<float>(u32{bits} << 16); }
inline u16 to_bf16(float x) {
    const u32 bits = std::bit_cast<u32>(x);
    if (x != x) return 0x7fff;
    return static_cast<u16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float from_f16(u16 half) {
    const u32 sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 0) return std::bit_cast<float>(sign | std::bit_cast<u32>(static_cast<float>(fraction) * 0x1p-24f));
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}
inline u16 to_f16(float x) {
    if (x != x) return 0x7fff;
    const u32 sign = std::bit_cast<u32>(x) >> 16 & 0x8000;
    const double size = std::fabs(static_cast<double>(x));
    if (size >= 65520.0) return static_cast<u16>(sign | 0x7c00);
    if (size < 0x1p-14) return static_cast<u16>(sign | static_cast<u32>(std::nearbyint(size * 0x1p24)));
    int exponent = 0;
    const double half_to_one = std::frexp(size, &exponent);
    const auto fraction = static_cast<u32>(std::nearbyint(half_to_one * 2048.0));
    return static_cast<u16>(sign | (static_cast<u32>(exponent + 14) * 1024 + fraction - 1024));
}

/// To the nearest, ties away from zero: `cvt.rna`.
inline float to_tf32(float x) {
    const u32 bits = std::bit_cast<u32>(x);
    return (bits & 0x7f800000u) == 0x7f800000u ? x : std::bit_cast<float>((bits + 0x1000u) & 0xffffe000u);
}
/// The 19 bits that a tensor core looks at.
inline float read_as_tf32(u32 bits) { return std::bit_cast<float>(bits & 0xffffe000u); }

/// `.ftz`: subnormal numbers become 0.
inline float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

/// The number of a pair, if the other is NaN.
template <class T> T larger(T a, T b) { return a != a ? b : b != b ? a : std::max(a, b); }
template <class T> T smaller(T a, T b) { return a != a ? b : b != b ? a : std::min(a, b); }
/// NaN, if one of a pair is: `max.NaN`.
template <class T> T larger_or_nan(T a, T b) {
    return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : std::max(a, b);
}
template <class T> T smaller_or_nan(T a, T b) {
    return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : std::min(a, b);
}

/// Division by zero has a result, not a trap.
template <class T> T quotient(T a, T b) {
    if (b == 0) return static_cast<T>(~T{});
    if constexpr (std::is_signed_v<T>)
        if (b == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
    return static_cast<T>(a / b);
}
template <class T> T remainder_of(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>)
        if (b == -1) return 0;
    return static_cast<T>(a % b);
}

/// An integer of a real that is whole already: the nearest one that there is, 0 of NaN.
template <class T, class Real> T saturated(Real x) {
    using limits = std::numeric_limits<T>;
    if (x != x) return 0;
    if (x <= static_cast<Real>(limits::min())) return limits::min();
    return x >= static_cast<Real>(limits::max()) ? limits::max() : static_cast<T>(x);
}

}  // namespace ptx
