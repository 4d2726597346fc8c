#include "memory.hpp"
#include "tensor_cores.hpp"
#include "translator.hpp"

#include <array>

namespace ptx {
namespace {

/// shfl.sync.bfly.b32 d|p, a, b, c, members;
void translate_shuffle(translator& in, const statement& from, instruction& to) {
    constexpr std::array<std::string_view, 4> ways = {"idx", "up", "down", "bfly"};
    if (from.words.size() < 4 || from.words[1] != "sync" || from.operands.size() != 5) return;
    for (std::size_t n = 0; n < ways.size(); ++n)
        if (ways[n] == from.words[2]) to.variant = static_cast<int>(n), to.run = shuffle;
    const std::vector<std::string> results = split(from.operands[0], '|');
    in.results(to, {results[0]}, 32);
    if (results.size() > 1) to.d[1] = in.predicate(results[1]);
    in.sources(to, {from.operands.begin() + 1, from.operands.end()}, 32);
}

/// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {d}, {a}, {b}, {c};
void translate_multiply(translator& in, const statement& from, instruction& to) {
    const std::vector<std::string>& words = from.words;
    const std::size_t count = words.size();
    if (count < 9 || words[1] != "sync" || words[3].rfind("m16n8k", 0) != 0 || from.operands.size() != 4) return;
    const std::string& elements = words[count - 3];
    const bool integers = elements == "s8" || elements == "u8";
    if (words[count - 2] != elements || words[count - 4] != (integers ? "s32" : "f32") ||
        words[count - 1] != words[count - 4] || has_word(from, "satfinite"))
        return;
    const int depth = std::stoi(words[3].substr(6));
    const fragment_sizes sizes = fragments_of(elements, depth);
    const std::array<int, 3> expected = {sizes.a, sizes.b, sizes.c};
    in.results(to, members_of(from.operands[0]), 32);
    for (std::size_t n = 0; n < 3; ++n) {
        const std::vector<std::string> registers = members_of(from.operands[n + 1]);
        if (static_cast<int>(registers.size()) != expected[n]) return;
        for (const std::string& each : registers) to.fragments.push_back(in.value(each, 32));
    }
    to.run = multiply_of(elements, depth);
}

/// wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {d}, {a}, descriptor of b, adds, 1, 1, transposed;
void translate_warpgroup(translator& in, const statement& from, instruction& to) {
    if (!in.device().warpgroups)
        refuse_text(from.line, "expected instructions that " + std::string(in.device().name) +
                                   " has, got wgmma; try PTX_CARD=sm_90a");
    const std::string& what = from.words.at(1);
    if (what == "fence" || what == "commit_group")
        to.run = [](execution&, const instruction&) {};
    else if (what == "wait_group")
        to.run = wait_for_sums;
    if (what != "mma_async" || from.operands.size() != 7 || from.words[4].rfind("m64n", 0) != 0 ||
        !from.words[4].ends_with("k16"))
        return;
    for (const std::string& each : members_of(from.operands[0])) to.fragments.push_back(in.value(each, 32));
    const std::vector<std::string> of_a = members_of(from.operands[1]);
    if (of_a.size() != 4) return;  // A in shared memory
    in.sources(to, of_a, 32);
    to.address.slot = in.value(from.operands[2], 64);
    to.from.slot = in.predicate(from.operands[3]);
    to.variant = (from.operands[6] == "1" ? 1 : 0) | (from.words.back() == "f16" ? 2 : 0);
    to.run = multiply_of_warpgroup;
}

}  // namespace

unit translate_warp(translator& in, const statement& from, instruction& to) {
    const std::string& name = from.words[0];
    if (name == "shfl") {
        translate_shuffle(in, from, to);
        return unit::memory;
    }
    if (name == "ldmatrix" && from.operands.size() == 2) {
        const std::vector<std::string> registers = members_of(from.operands[0]);
        in.results(to, registers, 32);
        to.address = in.address(from.operands[1]);
        to.vector = static_cast<int>(registers.size()), to.variant = has_word(from, "trans");
        to.run = load_matrices;
        return unit::memory;
    }
    if (name == "mma") translate_multiply(in, from, to);
    if (name == "wgmma") translate_warpgroup(in, from, to);
    return unit::tensor;
}

}  // namespace ptx
