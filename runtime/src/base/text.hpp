#pragma once
#include <attune/ir/element_type.hpp>

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// Sentences and JSON without a formatting library: an application links nothing for them.
namespace attune::detail {

inline void append(std::string& to, std::string_view part) { to += part; }
template <std::integral Number> void append(std::string& to, Number part) { to += std::to_string(part); }

/// say("expected ", 4, " axes"). Cold: optimised for size, as is whatever leads to it only.
template <class... Parts> [[gnu::cold]] std::string say(const Parts&... parts) {
    std::string result;
    (append(result, parts), ...);
    return result;
}

/// The sentence of an error: "attune: expected ..., got ...; try ..."
std::string refusal(const std::string& expected, const std::string& got, const std::string& attempt);

/// "f32" where all are alike, else "q:f32,k:bf16,v:bf16,out:f32".
std::string types_of(element_type q, element_type k, element_type v, element_type out);

/// "(2, 8, 128, 64)"
std::string list_of(std::span<const std::int64_t> numbers);

/// Parts that are not empty and not yet there, joined: "a; b".
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
    void add_raw(std::string_view key, std::string_view json);  ///< a value that is JSON already
    /// A list of what `item` makes of each element: JSON.
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
