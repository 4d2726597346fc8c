#include "memory.hpp"
#include "translator.hpp"

namespace ptx {
namespace {

space space_of(const statement& from) {
    for (const std::string& word : from.words) {
        if (word == "param") return space::parameters;
        if (word == "shared" || word == "shared::cta") return space::shared;
        if (word == "local") return space::local;
        if (word == "global" || word == "const") return space::global;
    }
    return space::generic;
}

void translate_access(translator& in, const statement& from, instruction& to) {
    if (from.operands.size() != 2) return;
    const bool loads = from.words[0] != "st";
    const std::string& type = from.words.back();
    const std::vector<std::string> registers = members_of(from.operands[loads ? 0 : 1]);
    to.vector = has_word(from, "v2") ? 2 : has_word(from, "v4") ? 4 : 1;
    if (static_cast<int>(registers.size()) != to.vector) return;
    const bool in_longs = bits_of(type) == 64 || in.is_long(registers[0]);
    if (loads)
        in.results(to, registers, in_longs ? 64 : 32);
    else
        in.sources(to, registers, in_longs ? 64 : 32);
    to.address = in.address(from.operands[loads ? 1 : 0]);
    to.run = loads ? load_of(space_of(from), type, in_longs) : store_of(space_of(from), type, in_longs);
}

/// red.global.add.f32 [a], x; atom.global.add.f32 d, [a], x;
void translate_sum(translator& in, const statement& from, instruction& to) {
    const bool returns = from.words[0] == "atom";
    if (from.operands.size() != (returns ? 3u : 2u) || !has_word(from, "add")) return;
    const std::string& type = from.words.back();
    if (returns) in.results(to, {from.operands[0]}, bits_of(type));
    to.address = in.address(from.operands[returns ? 1 : 0]);
    in.sources(to, {from.operands.back()}, bits_of(type));
    to.run = atomic_sum_of(space_of(from), type);
}

/// cp.async.cg.shared.global [to], [from], bytes (, bytes of the source); and how it is waited for.
void translate_copy(translator& in, const statement& from, instruction& to) {
    if (from.words.size() < 3 || from.words[1] != "async") return;
    const std::string& what = from.words[2];
    if (what == "commit_group") {
        to.run = commit_copies;
    } else if (what == "wait_group" || what == "wait_all") {
        to.variant = what == "wait_all" ? -1 : std::stoi(from.operands.at(0));
        to.run = wait_for_copies;
    } else if ((what == "ca" || what == "cg") && from.operands.size() >= 3) {
        to.address = in.address(from.operands[0]), to.from = in.address(from.operands[1]);
        to.vector = std::stoi(from.operands[2]);
        if (to.vector != 4 && to.vector != 8 && to.vector != 16)
            refuse_text(from.line, "expected a copy of 4, 8 or 16 bytes, got " + from.operands[2]);
        to.variant = from.operands.size() > 3;
        if (to.variant) to.s[2] = in.value(from.operands[3], 32);
        to.run = begin_copy;
    }
}

}  // namespace

unit translate_memory(translator& in, const statement& from, instruction& to) {
    const std::string& name = from.words[0];
    if (name == "ld" || name == "st" || name == "ldu")
        translate_access(in, from, to);
    else if (name == "red" || name == "atom")
        translate_sum(in, from, to);
    else if (name == "cp")
        translate_copy(in, from, to);
    return unit::memory;
}

}  // namespace ptx
