#include "ptx/body.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace attune::generators::inline ptx {
namespace {

[[noreturn]] void refuse_form(const std::string& code) {
    throw std::runtime_error("expected a call in the form that LLVM 20 writes, got \"" + code + "\"");
}

std::string between(const std::string& text, char open, char close, std::size_t from = 0) {
    const std::size_t a = text.find(open, from), b = a == text.npos ? a : text.find(close, a);
    if (b == text.npos) refuse_form(text);
    return text.substr(a + 1, b - a - 1);
}

bool begins_call(const std::string& line) {
    return line.find("callseq") != line.npos && trimmed(line).starts_with("{");
}

bool has_register(const names& operands, const std::string& name) {
    return std::ranges::any_of(operands, [&](const std::string& each) { return mentions(registers_in(each), name); });
}

/// A name and the number of a result behind it.
std::pair<std::string, std::size_t> without_number(const std::string& name) {
    const std::size_t at = name.rfind("_d");
    if (at == name.npos || at + 3 != name.size() || !std::isdigit(static_cast<unsigned char>(name.back())))
        return {name, 0};
    return {name.substr(0, at), static_cast<std::size_t>(name.back() - '0')};
}

bool moves_16_bytes(const statement& s) {
    return s.predicate.empty() &&
           (s.operation.find(".v2.b64") != std::string::npos || s.operation.find(".v4.b32") != std::string::npos ||
            s.operation.find(".v2.u64") != std::string::npos || s.operation.find(".v4.u32") != std::string::npos);
}

/// A text in which `%n` is the result n, `$n` the operand n.
std::string filled(std::string_view text, const names& results, const names& operands) {
    std::string all;
    for (std::size_t at = 0; at < text.size();) {
        const bool is_number = at + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[at + 1])) != 0;
        if (!is_number || (text[at] != '%' && text[at] != '$')) {
            all += text[at++];
            continue;
        }
        const names& from = text[at] == '%' ? results : operands;
        std::size_t n = 0;
        for (++at; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])); ++at)
            n = 10 * n + static_cast<std::size_t>(text[at] - '0');
        all += from.at(n);
    }
    return all;
}

}  // namespace

names step::read() const {
    if (line) return line->read;
    names all;
    for (const std::string& operand : operands)
        for (std::string& each : registers_in(operand)) all.push_back(std::move(each));
    return all;
}

/// Reads from `{ // callseq` to `} // callseq`.
body::call body::call_at(const std::vector<std::string>& lines, std::size_t& at) {
    call made;
    std::map<std::string, std::string> parameters;
    for (++at; at < lines.size(); ++at) {
        const std::string code = trimmed(lines[at]);
        if (code == "}") return made;
        if (code.empty() || code.starts_with(".param")) continue;
        if (code.starts_with("st.param.b")) {
            const std::size_t comma = code.find(',');
            parameters[between(code, '[', ']')] = trimmed(code.substr(comma + 1, code.find(';') - comma - 1));
        } else if (code.starts_with("call")) {
            // call.uni (retval0), name, (param0, ...); or without a result call.uni name, (param0, ...);
            const std::size_t space = code.find_first_of(" \t"), result = code.find("),");
            const std::size_t from = code[code.find_first_not_of(" \t", space)] == '(' ? result + 2 : space;
            const std::size_t comma = code.find(',', from);
            made.name = trimmed(code.substr(from, comma - from));
            if (made.name.ends_with(";")) made.name.pop_back();
            if (comma == code.npos) continue;
            std::stringstream list(between(code, '(', ')', comma));
            for (std::string each; std::getline(list, each, ',');) {
                const auto found = parameters.find(trimmed(each));
                if (found == parameters.end()) refuse_form(code);
                made.operands.push_back(found->second);
            }
        } else if (code.starts_with("ld.param.b")) {
            const std::size_t space = code.find_first_of(" \t");
            made.result = trimmed(code.substr(space, code.find(',') - space));
        } else {
            refuse_form(code);
        }
    }
    refuse_form("a call without an end");
}

body::body(const std::vector<std::string>& lines) {
    for (std::size_t at = 0; at < lines.size(); ++at) {
        if (begins_call(lines[at])) {
            const std::size_t first = at;
            call made = call_at(lines, at);
            if (made.name.starts_with(prefix)) {
                add(std::move(made));
                continue;
            }
            for (std::size_t i = first; i <= at; ++i) steps_.push_back({statement(lines[i])});
            continue;
        }
        steps_.push_back({statement(lines[at])});
        if (steps_.back().line->is_label() || steps_.back().line->ends_block()) block_ = steps_.size();
    }
}

void body::add(call made) {
    auto [name, which] = without_number(made.name);
    const instruction* const of = instruction_named(name);
    if (!of) throw std::runtime_error("expected a name that stands for an instruction, got " + made.name);
    if (of->of_warpgroup) which = take_number(made);
    if (static_cast<int>(made.operands.size()) != of->operands ||
        which >= static_cast<std::size_t>(std::max(of->results, 1)))
        throw std::runtime_error("expected a call of " + made.name + " with the operands of its instruction, got " +
                                 std::to_string(made.operands.size()) + " operands");
    if (of->address >= 0) take_address(made, *of);
    if (of->results > 1 && merge(made, *of, which)) return;
    step one{.made = of, .results = names(static_cast<std::size_t>(of->results)), .operands = made.operands};
    if (of->results > 0) one.results[which] = made.result;
    steps_.push_back(std::move(one));
}

/// The first operand, which is the number of a call's result.
std::size_t body::take_number(call& made) {
    if (made.operands.empty() || made.operands[0].find_first_not_of("0123456789") != std::string::npos)
        throw std::runtime_error("expected the number of a result in a call of " + made.name + ", got " +
                                 (made.operands.empty() ? "nothing" : made.operands[0]));
    const auto number = static_cast<std::size_t>(std::stoul(made.operands[0]));
    made.operands.erase(made.operands.begin());
    return number;
}

/// A number of bytes, where rows begin that a warpgroup reads.
std::string body::constant_of(const std::string& address) const {
    constexpr long long multiple = 1024;
    const std::size_t plus = std::min(address.find('+'), address.size());
    std::string base = address.substr(0, plus);
    for (std::size_t at = steps_.size(); at-- > 0 && base.starts_with("%");)
        if (mentions(steps_[at].written(), base))
            base = steps_[at].is("mov.b") ? trimmed(steps_[at].line->code.substr(steps_[at].line->code.find(',') + 1))
                                          : "?";
    if (std::isdigit(static_cast<unsigned char>(base.front()))) {
        const long long at = std::stoll(base) + (plus < address.size() ? std::stoll(address.substr(plus + 1)) : 0);
        if (at % multiple == 0) return std::to_string(at);
    }
    throw std::runtime_error(
        "expected rows for products of warpgroups from a constant multiple of 1024 bytes on, got "
        "them from " +
        address + " on");
}

/// Puts the address of a word in the place of the word, which the block has loaded before.
void body::take_address(call& made, const instruction& of) const {
    const auto operand = static_cast<std::size_t>(of.address);
    for (std::size_t at = steps_.size(); at-- > block_;) {
        const step& earlier = steps_[at];
        if (earlier.is("st.shared") || earlier.is("bar.")) break;
        if (!mentions(earlier.written(), made.operands[operand])) continue;
        if (!earlier.is("ld.shared.")) break;
        made.operands[operand] = earlier.line->address();
        if (of.of_warpgroup) made.operands[operand] = constant_of(made.operands[operand]);
        return;
    }
    throw std::runtime_error("expected a load of shared memory before " + made.name +
                             " that says where it reads, got none in its block of instructions");
}

/// Gives a result to an instruction of the block with these operands, none of which was written since, if nobody has
/// mentioned the result since.
bool body::merge(const call& made, const instruction& of, std::size_t which) {
    for (std::size_t at = steps_.size(); at-- > block_;) {
        step& earlier = steps_[at];
        for (const std::string& written : earlier.written())
            if (!written.empty() && has_register(made.operands, written)) return false;
        if (earlier.made == &of && earlier.operands == made.operands && earlier.results[which].empty()) {
            earlier.results[which] = made.result;
            return true;
        }
        if (of.address >= 0 && (earlier.is("st.shared") || earlier.is("bar."))) return false;
        if (mentions(earlier.written(), made.result) || mentions(earlier.read(), made.result)) return false;
    }
    return false;
}

void body::copy_asynchronously() {
    const auto commits = [](const step& s) { return s.made && s.made->name == commit_copies; };
    if (std::ranges::none_of(steps_, commits)) return;
    std::map<std::string, int> reads;
    for (const step& each : steps_)
        for (const std::string& r : each.read()) ++reads[r];
    std::map<std::string, std::size_t> loaded;  // by the first register, in this block
    for (std::size_t at = 0; at < steps_.size(); ++at) {
        if (!steps_[at].line) continue;
        const statement& s = *steps_[at].line;
        if (s.is_label() || s.ends_block()) loaded.clear();
        for (const std::string& r : s.written) loaded.erase(r);
        if (s.is("ld.global") && moves_16_bytes(s) && !s.written.empty()) loaded[s.written[0]] = at;
        if (!s.is("st.shared") || !moves_16_bytes(s)) continue;
        const names stored = registers_in(s.code.substr(std::min(s.code.find('{'), s.code.size())));
        const auto found = stored.empty() ? loaded.end() : loaded.find(stored[0]);
        if (found == loaded.end() || steps_[found->second].line->written != stored ||
            std::ranges::any_of(stored, [&](const std::string& r) { return reads[r] != 1; }))
            continue;
        const std::size_t from = found->second;
        steps_[at].line = statement("\tcp.async.cg.shared.global \t[" + s.address() + "], [" +
                                    steps_[from].line->address() + "], 16;");
        steps_[from].line = statement("");
    }
}

void body::remove_idle_loads() {
    std::set<std::string> read;
    for (const step& each : steps_)
        for (std::string& r : each.read()) read.insert(std::move(r));
    for (step& each : steps_)
        if (each.is("ld.shared") &&
            std::ranges::none_of(each.line->written, [&](const std::string& r) { return read.contains(r); }))
            each.line = statement("");
}

std::string body::text() const {
    int temporaries = 0;
    const auto temporary = [&] { return "%attune" + std::to_string(temporaries++); };
    std::string declarations, rest;
    bool declares = true;  // registers are declared before the first line that does something
    for (const step& each : steps_) {
        if (each.line) {
            const std::string& code = each.line->code;
            declares = declares && (code.empty() || code.starts_with(".") || code.starts_with("//"));
            if (!each.line->text.empty()) (declares ? declarations : rest) += each.line->text + "\n";
            continue;
        }
        declares = false;
        names operands = each.operands, results = each.results;
        for (std::size_t i = 0; i < operands.size(); ++i) {
            if (operands[i].starts_with("%") || each.made->results == 0 || each.made->address == static_cast<int>(i))
                continue;
            const std::string held = temporary();  // of a constant
            rest += "\tmov.b32 \t" + held + ", " + operands[i] + ";\n";
            operands[i] = held;
        }
        for (std::string& result : results)
            if (result.empty()) result = temporary();
        rest += "\t" + filled(each.made->text, results, operands) + "\n";
    }
    if (temporaries > 0) declarations += "\t.reg .b32 \t%attune<" + std::to_string(temporaries) + ">;\n";
    return declarations + rest;
}

}  // namespace attune::generators::inline ptx
