#pragma once
#include <algorithm>
#include <cstddef>
#include <string_view>

namespace attune::dsl {

/// A string as a template argument: `input<"slopes", f32>`. Compilers print it back in errors.
template <std::size_t N>
struct name {
    char text[N]{};
    constexpr name(const char (&literal)[N]) { std::copy_n(literal, N, text); }
    constexpr explicit name(std::string_view s) { std::copy_n(s.data(), N - 1, text); }
    constexpr std::string_view view() const { return {text, N - 1}; }
};

}  // namespace attune::dsl
