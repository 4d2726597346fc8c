#pragma once
#include <cstdint>
#include <string_view>

namespace attune {

/// What one element of a tensor is. Accumulation is f32 whatever the element type.
enum class element_type : std::uint8_t {
    any,  ///< chosen when the kernel is compiled (q, k, v and the outputs): DTYPES of attune_add_variant
    f32,
    bf16,
    f16,
    i32,
    u8,
    boolean,  ///< one byte, zero is false; a u8 tensor may be passed for it
    i8,
    f8_e4m3,  ///< four bits of exponent, no infinity, one NaN of each sign: float8_e4m3fn (Micikevicius et al. 2022)
    f8_e5m2,  ///< the upper half of an f16
    i64,      ///< an integer of 32 bits, stored in 64; a call with one that does not fit is refused
    i16,
    f64,  ///< for numbers of a call only; kernels compute in f32
};

constexpr std::string_view name_of(element_type e) {
    switch (e) {
        case element_type::any: return "any";
        case element_type::f32: return "f32";
        case element_type::bf16: return "bf16";
        case element_type::f16: return "f16";
        case element_type::i32: return "i32";
        case element_type::u8: return "u8";
        case element_type::boolean: return "boolean";
        case element_type::i8: return "i8";
        case element_type::f8_e4m3: return "f8_e4m3";
        case element_type::f8_e5m2: return "f8_e5m2";
        case element_type::i64: return "i64";
        case element_type::i16: return "i16";
        case element_type::f64: return "f64";
    }
    return "?";
}

/// Whether an element is a number without a fraction.
constexpr bool is_integer(element_type e) {
    return e == element_type::i32 || e == element_type::u8 || e == element_type::i8 || e == element_type::i64 ||
           e == element_type::i16;
}

constexpr int bytes_of(element_type e) {
    switch (e) {
        case element_type::any: return 0;
        case element_type::i64:
        case element_type::f64: return 8;
        case element_type::f32:
        case element_type::i32: return 4;
        case element_type::bf16:
        case element_type::f16:
        case element_type::i16: return 2;
        case element_type::u8:
        case element_type::boolean:
        case element_type::i8:
        case element_type::f8_e4m3:
        case element_type::f8_e5m2: return 1;
    }
    return 0;
}

namespace dsl {
inline constexpr auto f32 = element_type::f32;
inline constexpr auto bf16 = element_type::bf16;
inline constexpr auto f16 = element_type::f16;
inline constexpr auto i32 = element_type::i32;
inline constexpr auto u8 = element_type::u8;
inline constexpr auto boolean = element_type::boolean;
inline constexpr auto i8 = element_type::i8;
inline constexpr auto f8_e4m3 = element_type::f8_e4m3;
inline constexpr auto f8_e5m2 = element_type::f8_e5m2;
inline constexpr auto i64 = element_type::i64;
inline constexpr auto i16 = element_type::i16;
inline constexpr auto f64 = element_type::f64;
}  // namespace dsl
}  // namespace attune
