#pragma once
#include <cstddef>
#include <string_view>

namespace attune::dsl {

/// A string as a template argument: `input<"slopes", f32>`. Compilers print it back in errors.
template <std::size_t N> struct name {
    char text[N]{};
    constexpr name(const char (&literal)[N]) : name(std::string_view(literal, N - 1)) {}
    constexpr explicit name(std::string_view s) {
        for (std::size_t i = 0; i + 1 < N && i < s.size(); ++i) text[i] = s[i];
    }
    constexpr std::string_view view() const { return {text, N - 1}; }
};

/// `dq`: what the gradient of `q` is called, and the cotangent of an output.
template <name Of>
inline constexpr auto derivative_name = [] {
    name<sizeof(Of.text) + 1> made(std::string_view{});
    made.text[0] = 'd';
    for (std::size_t i = 0; i + 1 < sizeof(Of.text); ++i) made.text[i + 1] = Of.text[i];
    return made;
}();

/// `out_before`: what the state that an output of a shard begins with is called.
template <name Of>
inline constexpr auto before_name = [] {
    constexpr std::string_view ending = "_before";
    name<sizeof(Of.text) + ending.size()> made(Of.view());
    for (std::size_t i = 0; i < ending.size(); ++i) made.text[Of.view().size() + i] = ending[i];
    return made;
}();

}  // namespace attune::dsl
