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
    }
    return "?";
}

constexpr int bytes_of(element_type e) {
    switch (e) {
        case element_type::any: return 0;
        case element_type::f32:
        case element_type::i32: return 4;
        case element_type::bf16:
        case element_type::f16: return 2;
        case element_type::u8:
        case element_type::boolean: return 1;
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
}  // namespace dsl
}  // namespace attune
