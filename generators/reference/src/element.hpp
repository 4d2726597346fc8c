#pragma once
#include <attune/ir/element.hpp>
#include <attune/runtime/tensor.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace attune::reference {

inline double from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

inline double from_f16(std::uint16_t bits) {
    const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    const double sign = (bits >> 15) != 0 ? -1.0 : 1.0;
    if (exponent == 31) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
    if (exponent == 0) return sign * std::ldexp(fraction, -24);
    return sign * std::ldexp(1024 + fraction, exponent - 25);
}

/// The value of a byte with a number of exponent bits. With four, every byte is finite except those with all bits set.
inline double from_f8(std::uint8_t bits, int exponent_bits) {
    const int fraction_bits = 7 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1,
              exponent = (bits & 0x7f) >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1),
              whole = 1 << fraction_bits;
    const double sign = (bits & 0x80) != 0 ? -1.0 : 1.0;
    if (exponent_bits == 4 && (bits & 0x7f) == 0x7f) return std::nan("");
    if (exponent_bits == 5 && exponent == 31) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
    return sign * std::ldexp(whole + fraction, exponent - bias - fraction_bits);
}

/// The element at an address, exactly. Booleans are 0 or 1.
inline double read_element(const void* address, element_type type) {
    const auto as = [address]<class T>(T value) {
        std::memcpy(&value, address, sizeof value);
        return value;
    };
    switch (type) {
        case element_type::f32: return as(float{});
        case element_type::i32: return as(std::int32_t{});
        case element_type::u8: return as(std::uint8_t{});
        case element_type::i8: return as(std::int8_t{});
        case element_type::i64: return static_cast<double>(as(std::int64_t{}));
        case element_type::i16: return as(std::int16_t{});
        case element_type::f8_e4m3: return from_f8(as(std::uint8_t{}), 4);
        case element_type::f8_e5m2: return from_f8(as(std::uint8_t{}), 5);
        case element_type::boolean: return as(std::uint8_t{}) != 0 ? 1.0 : 0.0;
        case element_type::bf16: return from_bf16(as(std::uint16_t{}));
        case element_type::f16: return from_f16(as(std::uint16_t{}));
        case element_type::f64: return as(double{});
        case element_type::any: break;
    }
    return std::nan("");
}

/// Writes an element; for a real the nearest one.
inline void write_element(void* address, element_type type, double x) {
    const auto put = [address](auto value) { std::memcpy(address, &value, sizeof value); };
    switch (type) {
        case element_type::f32: return put(static_cast<float>(x));
        case element_type::bf16: return put(bfloat16(static_cast<float>(x)).bits);
        case element_type::f16: return put(float16(static_cast<float>(x)).bits);
        case element_type::i32: return put(static_cast<std::int32_t>(x));
        case element_type::i64: return put(static_cast<std::int64_t>(x));
        case element_type::i16: return put(static_cast<std::int16_t>(x));
        case element_type::i8: return put(static_cast<std::int8_t>(x));
        case element_type::u8:
        case element_type::boolean: return put(static_cast<std::uint8_t>(x));
        case element_type::f8_e4m3: return put(float8_e4m3(static_cast<float>(x)).bits);
        case element_type::f8_e5m2: return put(float8_e5m2(static_cast<float>(x)).bits);
        case element_type::f64:
        case element_type::any: break;  // nothing stores them
    }
}

}  // namespace attune::reference
