#include "base/text.hpp"

#include <attune/runtime/error.hpp>

#include <array>
#include <charconv>
#include <cstdio>

namespace attune {

const char* error::what() const noexcept { return std::runtime_error::what(); }
const char* kernel_failure::what() const noexcept { return error::what(); }

}  // namespace attune

namespace attune::detail {

std::string sentence(std::initializer_list<phrase> parts) {
    std::string all;
    for (const phrase& part : parts) {
        if (part.is_negative) all += '-';
        all += part.is_number ? std::to_string(part.size) : part.words;
    }
    return all;
}

std::string refusal(std::string_view expected, std::string_view got, std::string_view attempt) {
    return say("attune: expected ", expected, ", got ", got, "; try ", attempt);
}

void fail(std::string_view expected, std::string_view got, std::string_view attempt) {
    throw error(refusal(expected, got, attempt));
}

std::string list_of(std::span<const std::int64_t> numbers) {
    std::string result = "(";
    for (const auto n : numbers) {
        if (result.size() > 1) result += ", ";
        result += std::to_string(n);
    }
    return result + ")";
}

void add_part(std::string& to, std::string_view part, std::string_view separator) {
    if (part.empty()) return;
    for (std::size_t from = 0; from < to.size();) {
        const auto end = std::min(to.find(separator, from), to.size());
        if (std::string_view(to).substr(from, end - from) == part) return;
        from = end + separator.size();
    }
    if (!to.empty()) to += separator;
    to += part;
}

std::string in_bytes(std::uint64_t count) {
    constexpr std::array units = {"B", "KB", "MB", "GB", "TB"};
    double value = static_cast<double>(count);
    std::size_t unit = 0;
    while (value >= 1000 && unit + 1 < units.size()) value /= 1000, ++unit;
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
    return text.data();
}

std::string in_short(double number) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.3g", number);
    return text.data();
}

std::string types_of(element_type q, element_type k, element_type v, element_type out) {
    if (q == k && k == v && v == out) return std::string(name_of(q));
    return say("q:", name_of(q), ",k:", name_of(k), ",v:", name_of(v), ",out:", name_of(out));
}

std::string quoted(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\')
            result += '\\', result += c;
        else if (c == '\n')
            result += "\\n";
        else if (static_cast<unsigned char>(c) < 0x20) {
            std::array<char, 8> escaped{};
            std::snprintf(escaped.data(), escaped.size(), "\\u%04x", static_cast<unsigned>(c));
            result += escaped.data();
        } else
            result += c;
    }
    return result + '"';
}

void json_object::add(std::string_view key, double value) {
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    add_raw(key, std::string_view(text.data(), static_cast<std::size_t>(end - text.data())));
}

void json_object::add_raw(std::string_view key, std::string_view json) {
    if (!body_.empty()) body_ += ", ";
    ((((body_ += '"') += key) += "\": ") += json);
}

}  // namespace attune::detail
