#pragma once
#include <attune/ir/element_type.hpp>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

// A shared library that holds the runtime shows what the installed headers declare; what the headers beside this one do
// is its own.
#pragma GCC visibility push(hidden)
/// Sentences and JSON without a formatting library, so that applications link none.
namespace attune::detail {

inline void append(std::string& to, std::string_view part) { to += part; }
template <std::integral Number> void append(std::string& to, Number part) { to += std::to_string(part); }

/// A part of a sentence: words, or a number.
struct phrase {
    std::string_view words{};
    std::uint64_t size{};
    bool is_number{}, is_negative{};

    template <std::convertible_to<std::string_view> Words>
    [[gnu::always_inline]] phrase(const Words& text) : words(text) {}
    template <std::integral Number>
    [[gnu::always_inline]] phrase(Number number)
        : size(number < 0 ? -static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number)),
          is_number(true),
          is_negative(number < 0) {}
};
[[gnu::cold]] std::string sentence(std::initializer_list<phrase> parts);

/// say("expected ", 4, " axes"). Cold: optimised for size, as is code that only leads to it. Hidden: a library that
/// holds it shows none of its many names.
template <class... Parts> [[gnu::cold, gnu::visibility("hidden")]] std::string say(const Parts&... parts) {
    return sentence({phrase(parts)...});
}

/// The sentence of an error: "attune: expected ..., got ...; try ..."
std::string refusal(std::string_view expected, std::string_view got, std::string_view attempt);

/// "f32" where all are alike, else "q:f32,k:bf16,v:bf16,out:f32".
std::string types_of(element_type q, element_type k, element_type v, element_type out);

/// "(2, 8, 128, 64)"
std::string list_of(std::span<const std::int64_t> numbers);

/// The parts joined, without empty and repeated ones: "a; b".
void add_part(std::string& to, std::string_view part, std::string_view separator = ", ");

/// "1.50 GB"
std::string in_bytes(std::uint64_t count);
/// Three significant digits: "1.23e+09"
std::string in_short(double number);

/// "text", escaped
std::string quoted(std::string_view text);

/// A JSON object under construction: `json_object j; j.add("name", "x"); j.text()`.
class json_object {
public:
    void add(std::string_view key, std::string_view value) { add_raw(key, quoted(value)); }
    void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
    void add(std::string_view key, const std::string& value) { add(key, std::string_view(value)); }
    void add(std::string_view key, bool value) { add_raw(key, value ? "true" : "false"); }
    template <std::integral Number> void add(std::string_view key, Number value) {
        add_raw(key, std::to_string(value));
    }
    void add(std::string_view key, double value);
    void add_raw(std::string_view key, std::string_view json);  ///< a value that is already JSON
    /// A JSON list of the results of `item` for each element.
    template <class List, class Item> void add_list(std::string_view key, const List& list, Item item) {
        std::string all;
        for (const auto& each : list) append(all, all.empty() ? "" : ", "), append(all, item(each));
        add_raw(key, "[" + all + "]");
    }
    std::string text() const { return "{" + body_ + "}"; }

private:
    std::string body_;
};

}  // namespace attune::detail
#pragma GCC visibility pop
