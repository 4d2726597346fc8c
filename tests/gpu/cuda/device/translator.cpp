#include "translator.hpp"

#include "control_flow.hpp"
#include "execution.hpp"

#include <algorithm>
#include <cctype>

namespace ptx {
namespace {

constexpr const char* special_names[] = {"%tid.x",    "%tid.y",    "%tid.z",   "%ntid.x",  "%ntid.y",
                                         "%ntid.z",   "%ctaid.x",  "%ctaid.y", "%ctaid.z", "%nctaid.x",
                                         "%nctaid.y", "%nctaid.z", "%laneid",  "%warpid"};
static_assert(std::size(special_names) == static_cast<std::size_t>(special::count));

bool is_number(const std::string& text) {
    return !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) || (text[0] == '-' && text.size() > 1));
}
/// 12, -3, 0x1f, 10U; and the bits of 0f3F800000, 0d3FF0000000000000.
u64 number_of(std::string text, int line) {
    const bool real =
        text.size() > 2 && text[0] == '0' && std::string_view("fFdD").find(text[1]) != std::string_view::npos;
    if (text.back() == 'U') text.pop_back();
    std::size_t used = 0;
    u64 value = 0;
    try {
        if (real)
            value = std::stoull(text.substr(2), &used, 16), used += 2;
        else
            value = text[0] == '-' ? static_cast<u64>(std::stoll(text, &used, 0)) : std::stoull(text, &used, 0);
    } catch (const std::exception&) {
        used = 0;
    }
    if (used != text.size()) refuse_text(line, "expected a number, got " + text);
    return value;
}

}  // namespace

std::vector<std::string> members_of(const std::string& operand) {
    return operand[0] == '{' ? split(std::string_view(operand).substr(1, operand.size() - 2), ',')
                             : std::vector<std::string>{operand};
}

translator::translator(const module_text& of, const entry_text& entry, const card& on) : entry_(entry), card_(on) {
    made_.name = entry.name;
    made_.lines = std::make_shared<const std::vector<std::string>>(of.lines);
    made_.parameters = entry.parameters, made_.parameter_bytes = entry.parameter_bytes;
    for (const char* name : special_names) slot(name, false);
    for (const parameter& each : entry.parameters) symbols_[each.name] = static_cast<s64>(each.offset);
    const auto place = [&](const variable& each, std::size_t& used) {
        used = (used + each.align - 1) / each.align * each.align;
        symbols_[each.name] = static_cast<s64>(used);
        used += each.bytes;
    };
    for (const variable& each : of.shared) place(each, made_.shared_bytes);
    for (const statement& each : entry.statements) {
        if (!each.words[0].empty() || each.words.size() < 2) continue;
        const bool shared = each.words[1] == "shared";
        if (shared || each.words[1] == "local")
            place(read_variable("." + each.words[1] + " " + each.operands[0], each.line),
                  shared ? made_.shared_bytes : made_.local_bytes);
    }
    for (std::size_t* bytes : {&made_.shared_bytes, &made_.local_bytes}) *bytes = (*bytes + 15) / 16 * 16;
    for (const std::string& name : of.dynamic) symbols_[name] = static_cast<s64>(made_.shared_bytes);
}

program translator::whole() {
    for (const statement& each : entry_.statements) {
        line_ = each.line;
        first_instruction_.push_back(made_.code.size());
        if (each.words[0].empty())
            declare(each);
        else
            add(each);
    }
    first_instruction_.push_back(made_.code.size());
    instruction end;
    end.run = leave, end.line = line_;
    end.operation = operation_of({.line = line_, .guard = {}, .guard_negated = {}, .words = {"ret"}, .operands = {}},
                                 unit::control);
    made_.code.push_back(end);
    for (const auto& [at, label] : branches_) {
        const auto to = entry_.labels.find(label);
        if (to == entry_.labels.end())
            refuse_text(made_.code[at].line, "expected a label of " + entry_.name + ", got " + label);
        made_.code[at].target = static_cast<int>(first_instruction_[to->second]);
    }
    find_meetings(made_);
    return std::move(made_);
}

int translator::slot(const std::string& name, bool is_long) {
    const auto [at, is_new] = (is_long ? longs_ : words_).try_emplace(name, is_long ? made_.longs : made_.words);
    if (is_new) ++(is_long ? made_.longs : made_.words);
    return at->second;
}

/// `.reg .b32 %r<10>` or `.reg .b32 a, b`. Other directives say nothing that matters here.
void translator::declare(const statement& registers) {
    if (registers.words[1] != "reg") return;
    const std::string& text = registers.operands[0];
    const std::size_t space = text.find_first_of(" \t");
    const std::string type = text.substr(1, space - 1);
    if (!bits_of(type)) refuse_text(line_, "expected a type of registers, got " + type);
    for (std::string name : split(std::string_view(text).substr(space), ',')) {
        const std::size_t many = name.find('<');
        const int count = many == std::string::npos ? 1 : std::stoi(name.substr(many + 1));
        if (many != std::string::npos) name.resize(many);
        for (int n = 0; n < count; ++n) {
            const std::string each = many == std::string::npos ? name : name + std::to_string(n);
            if (type == "pred")
                made_.predicates += predicates_.try_emplace(each, made_.predicates).second;
            else
                slot(each, bits_of(type) == 64);
        }
    }
}

int translator::operation_of(const statement& from, unit at) {
    const std::string name = from.operation();
    const auto [found, is_new] = operations_.try_emplace(name, static_cast<int>(made_.operations.size()));
    if (is_new) made_.operations.push_back({name, at});
    return found->second;
}

void translator::add(const statement& from) {
    using family = unit (*)(translator&, const statement&, instruction&);
    constexpr family families[] = {translate_plain,      translate_choice, translate_memory, translate_move,
                                   translate_conversion, translate_warp,   translate_control};
    instruction made;
    made.line = from.line;
    if (!from.guard.empty()) made.when = {predicate(from.guard), from.guard_negated};
    unit at = unit::control;
    if (from.words[0] == "bra") {
        made.run = branch;
        branches_.emplace_back(made_.code.size(), from.operands.at(0));
    }
    for (const family& each : families)
        if (!made.run) at = each(*this, from, made);
    if (!made.run) refuse_text(line_, "expected an instruction that this device has, got " + from.operation());
    made.operation = operation_of(from, at);
    made_.code.push_back(std::move(made));
}

const s64* translator::symbol(const std::string& name) const {
    const auto found = symbols_.find(name);
    return found == symbols_.end() ? nullptr : &found->second;
}

int translator::value(const std::string& operand, int bits) {
    const bool is_long = bits == 64;
    const auto& slots = is_long ? longs_ : words_;
    if (const auto found = slots.find(operand); found != slots.end()) return found->second;
    const s64* const place = symbol(operand);
    if (!place && !is_number(operand))
        refuse_text(line_,
                    "expected a register of " + std::string(is_long ? "64" : "at most 32") + " bits, got " + operand);
    const u64 constant = place ? static_cast<u64>(*place) : number_of(operand, line_);
    const int made = slot(operand, is_long);
    if (is_long)
        made_.constant_longs.emplace_back(made, constant);
    else
        made_.constant_words.emplace_back(made, static_cast<u32>(constant));
    return made;
}

int translator::predicate(const std::string& name) const {
    const auto found = predicates_.find(name);
    if (found == predicates_.end()) refuse_text(line_, "expected a predicate, got " + name);
    return found->second;
}

/// [register + offset], [variable + offset], [number]
memory_operand translator::address(const std::string& operand) {
    if (operand.size() < 3 || operand[0] != '[') refuse_text(line_, "expected an address in brackets, got " + operand);
    const std::string inside = operand.substr(1, operand.size() - 2);
    const std::size_t plus = inside.find('+', 1);
    const std::string base = trimmed(inside.substr(0, plus));
    memory_operand made;
    if (plus != std::string::npos) made.offset = static_cast<s64>(number_of(trimmed(inside.substr(plus + 1)), line_));
    if (const s64* const place = symbol(base))
        made.offset += *place;
    else if (is_number(base))
        made.offset += static_cast<s64>(number_of(base, line_));
    else
        made.wide = is_long(base), made.slot = value(base, made.wide ? 64 : 32);
    return made;
}

void translator::results(instruction& of, const std::vector<std::string>& operands, int bits) {
    if (operands.size() > of.d.size())
        refuse_text(line_, "expected at most 4 results, got " + std::to_string(operands.size()));
    for (std::size_t n = 0; n < operands.size(); ++n) {
        if (is_number(operands[n])) refuse_text(line_, "expected a register for a result, got " + operands[n]);
        of.d[n] = operands[n] == "_" ? -1 : value(operands[n], bits);
    }
}

void translator::sources(instruction& of, const std::vector<std::string>& operands, int bits) {
    if (operands.size() > of.s.size())
        refuse_text(line_, "expected at most 4 sources, got " + std::to_string(operands.size()));
    for (std::size_t n = 0; n < operands.size(); ++n) of.s[n] = value(operands[n], bits);
}

}  // namespace ptx
