#include "ptx/statement.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace attune::generators::inline ptx {
namespace {

bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool is_of_register(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

/// Operations that write no register: their first operand is read like the others.
bool has_result(const statement& s) {
    constexpr std::string_view none[] = {"st.", "bra", "bar", "red.", "cp.", "call"};
    return std::ranges::none_of(none, [&](std::string_view begins) { return s.is(begins); });
}

}  // namespace

std::string trimmed(std::string_view text) {
    text = text.substr(0, text.find("//"));
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    return std::string(text);
}

names registers_in(std::string_view text) {
    names found;
    for (std::size_t at = 0; (at = text.find('%', at)) != text.npos;) {
        std::size_t end = at + 1;
        while (end < text.size() && is_of_register(text[end])) ++end;
        found.emplace_back(text.substr(at, end - at));
        at = end;
    }
    return found;
}

statement::statement(std::string line) : text(std::move(line)), code(trimmed(text)) {
    if (code.starts_with("@")) {
        const std::size_t space = std::min(code.find_first_of(" \t"), code.size());
        predicate = code.substr(1, space - 1);
        if (predicate.starts_with("!")) predicate.erase(0, 1);
        code = trimmed(code.substr(space));
        read.push_back(predicate);
    }
    std::string body = code;
    if (body.starts_with("{ .reg"))  // { .reg .b32 unused; mov.b64 {unused, %r1}, %rd1; }
        body = trimmed(body.substr(std::min(body.find(';'), body.size() - 1) + 1));
    const std::size_t space = body.find_first_of(" \t");
    operation = body.substr(0, space);
    if (!operation.empty() && operation.back() == ';') operation.pop_back();
    if (space == body.npos || is_label() || body.starts_with(".")) return;
    const std::string operands = trimmed(body.substr(space));
    std::size_t split = 0;
    if (has_result(*this)) {
        split = std::min(operands.find(operands.front() == '{' ? '}' : ','), operands.size());
        written = registers_in(operands.substr(0, split));
    }
    for (std::string& each : registers_in(operands.substr(split))) read.push_back(std::move(each));
}

std::string statement::branch_target() const {
    const std::string to = trimmed(code.substr(std::min(code.find_first_of(" \t"), code.size())));
    return to.substr(0, to.find(';'));
}

std::string statement::address() const {
    const std::size_t open = code.find('['), close = code.find(']', std::min(open, code.size()));
    return open == code.npos || close == code.npos ? std::string() : code.substr(open + 1, close - open - 1);
}

}  // namespace attune::generators::inline ptx
