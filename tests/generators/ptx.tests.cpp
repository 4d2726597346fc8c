// Calls in the text of a kernel become instructions: the same operands one instruction, in every order that LLVM may
// write, and a sentence where text or place does not allow it.
#include "ptx/complete.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <stdexcept>
#include <string>
#include <vector>

using attune::generators::ptx::completed;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A call as LLVM writes it.
std::string call(const std::string& name, const std::vector<std::string>& operands, const std::string& result) {
    static int number = 0;
    const std::string sequence = std::to_string(number++);
    std::string text = "\t{ // callseq " + sequence + ", 0\n", list;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const std::string parameter = "param" + std::to_string(i);
        text += "\t.param .b32 " + parameter + ";\n\tst.param.b32 \t[" + parameter + "], " + operands[i] + ";\n";
        list += (i ? ", " : "") + parameter;
    }
    text += "\t.param .b32 \tretval0;\n\tcall.uni (retval0), " + name + ", (" + list + ");\n";
    if (!result.empty()) text += "\tld.param.b32 \t" + result + ", [retval0];\n";
    return text + "\t} // callseq " + sequence + "\n";
}

/// A product's result `which`, of fragments in %r1 to %r6 and sums in %r7 to %r10.
std::string product(int which, const std::string& result, const std::string& first = "%r1") {
    return call("attune_mma_m16n8k16_bf16_d" + std::to_string(which),
                {first, "%r2", "%r3", "%r4", "%r5", "%r6", "%r7", "%r8", "%r9", "%r10"}, result);
}

std::string kernel(const std::string& body) {
    return ".version 7.0\n.target sm_80\n.visible .entry kernel(\n\t.param .u64 kernel_param_0\n)\n{\n"
           "\t.reg .pred \t%p<3>;\n\t.reg .b32 \t%r<99>;\n\t.reg .b64 \t%rd<9>;\n\n" +
           body + "\tret;\n}\n";
}

int count(const std::string& text, const std::string& what) {
    int found = 0;
    for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; ++at) ++found;
    return found;
}

void refuses(const std::string& body, const std::string& sentence) {
    CHECK_THROWS_MATCHES(completed(kernel(body)), std::runtime_error,
                         Catch::Matchers::MessageMatches(ContainsSubstring(sentence)));
}

}  // namespace

TEST_CASE("four calls with the same operands are one instruction") {
    const std::string all = product(0, "%r11") + product(1, "%r12") + product(2, "%r13") + product(3, "%r14");
    const std::string text = completed(kernel(all));
    CHECK_THAT(text, ContainsSubstring("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r11, %r12, %r13, %r14}, "
                                       "{%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r7, %r8, %r9, %r10};"));
    CHECK(count(text, "mma.sync") == 1);
    CHECK(count(text, "call") == 0);
    CHECK(count(text, "\n}\n") == 1);
    // In any order, with other instructions between them.
    const std::string other = "\tadd.s32 \t%r20, %r21, 1;\n";
    const std::string mixed = completed(
        kernel(product(3, "%r14") + other + product(0, "%r11") + product(2, "%r13") + other + product(1, "%r12")));
    CHECK_THAT(mixed, ContainsSubstring("{%r11, %r12, %r13, %r14}"));
    CHECK(count(mixed, "mma.sync") == 1);
    CHECK(count(mixed, other) == 2);
}

namespace {

/// A sum of a product of a warpgroup of 64 columns and 4 steps, whose fragments are %r1 to %r16; its rows begin at
/// %rd1.
std::string product_of_warpgroup(int which, const std::string& result) {
    std::vector<std::string> operands{std::to_string(which)};
    for (int n = 1; n <= 16; ++n) operands.push_back("%r" + std::to_string(n));
    operands.emplace_back("%r20");
    return "\tld.shared.b32 \t%r20, [%rd1];\n" + call("attune_wgmma_n64_s4_bf16", operands, result);
}

}  // namespace

TEST_CASE(
    "calls with the numbers of their results are one product of a warpgroup, in a module for the cards that have it") {
    const std::string rows = "\tmov.b64 \t%rd1, 2048;\n",
                      text =
                          completed(kernel(rows + product_of_warpgroup(0, "%r31") + product_of_warpgroup(31, "%r32")));
    CHECK_THAT(text, ContainsSubstring(".version 8.0\n.target sm_90a\n"));
    CHECK(count(text, "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%r31, ") == 4);
    CHECK(count(text, ", %r32}, {%r5, %r6, %r7, %r8}, rows, always, 1, 1, 0;") == 1);
    CHECK(count(text, "wgmma.wait_group") == 1);
    CHECK(count(text, "ld.shared") == 0);
    CHECK_THAT(text, ContainsSubstring("mov.b64 place, 2048;"));
    refuses(
        "\tmov.b64 \t%rd1, 2064;\n" + product_of_warpgroup(0, "%r31"),
        "expected rows for products of warpgroups from a constant multiple of 1024 bytes on, got them from %rd1 on");
    refuses(product_of_warpgroup(0, "%r31"), "from a constant multiple of 1024 bytes on");
    const std::string alone = "\tmov.u32 \t%r40, %tid.y;\n\tsetp.lt.u32 \t%p1, %r40, 4;\n\t@%p1 bra \tover;\n";
    refuses(rows + alone + product_of_warpgroup(0, "%r31") + "over:\n",
            "expected all threads of a warp to reach attune_wgmma_n64_s4_bf16 together");
    refuses(rows + call("attune_wgmma_n64_s4_bf16", {"%r1"}, "%r31"), "expected the number of a result in a call of");
}

TEST_CASE("a result that nobody asks for goes to a register of its own, and so does a constant") {
    const std::string text = completed(kernel(product(0, "%r11", "0") + product(2, "%r13", "0")));
    CHECK_THAT(text, ContainsSubstring("\tmov.b32 \t%attune0, 0;\n"));
    CHECK_THAT(text, ContainsSubstring("{%r11, %attune1, %r13, %attune2}, {%attune0, %r2, %r3, %r4}"));
    CHECK_THAT(text, ContainsSubstring(".reg .b32 \t%attune<3>;"));
    CHECK(text.find(".reg .b32 \t%attune") < text.find("mov.b32"));
}

TEST_CASE("calls between which an operand or a result changes are instructions of their own") {
    CHECK(count(completed(kernel(product(0, "%r11") + "\tmov.b32 \t%r7, %r20;\n" + product(1, "%r12"))), "mma.sync") ==
          2);
    CHECK(count(completed(kernel(product(0, "%r11") + "\tadd.s32 \t%r20, %r12, 1;\n" + product(1, "%r12"))),
                "mma.sync") == 2);
    CHECK(count(completed(kernel(product(0, "%r11") + "\tmov.b32 \t%r12, %r20;\n" + product(1, "%r12"))), "mma.sync") ==
          2);
    CHECK(count(completed(kernel(product(0, "%r11") + "$L__BB0_1:\n" + product(1, "%r12"))), "mma.sync") == 2);
    CHECK(count(completed(kernel(product(0, "%r11") + product(1, "%r12", "%r20"))), "mma.sync") == 2);
    // A sum that is added to where it lies.
    CHECK(count(completed(kernel(product(0, "%r7") + product(1, "%r8"))), "mma.sync") == 2);
}

TEST_CASE("an address is that of the word that was loaded to be passed, which then is not loaded") {
    const auto matrices = [](const std::string& word) {
        std::string all;
        for (int n = 0; n < 4; ++n)
            all += call("attune_ldmatrix_x4_trans_d" + std::to_string(n), {word}, "%r" + std::to_string(11 + n));
        return all;
    };
    const std::string load = "\tld.shared.b32 \t%r1, [%rd1+64];\n";
    const std::string text = completed(kernel(load + matrices("%r1")));
    CHECK_THAT(
        text, ContainsSubstring("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r11, %r12, %r13, %r14}, [%rd1+64];"));
    CHECK(count(text, "ld.shared") == 0);
    CHECK(count(completed(kernel(load + matrices("%r1") + "\tadd.s32 \t%r20, %r1, 1;\n")), "ld.shared") == 1);
    refuses(matrices("%r1"), "expected a load of shared memory before attune_ldmatrix_x4_trans_d0");
    refuses(load + "\tbar.sync \t0;\n" + matrices("%r1"), "got none in its block of instructions");
    refuses(load + "\tst.shared.b32 \t[%rd2], %r3;\n" + matrices("%r1"), "got none in its block of instructions");
    refuses("\tld.global.b32 \t%r1, [%rd1];\n" + matrices("%r1"), "expected a load of shared memory");
}

TEST_CASE("where a kernel waits for copies, 16 bytes go to shared memory without a register") {
    const std::string
        pair = "\tld.global.nc.v2.b64 \t{%rd3, %rd4}, [%rd1+16];\n\tst.shared.v2.b64 \t[%rd2], {%rd3, %rd4};\n",
        waits = call("attune_async_commit", {}, "") + call("attune_async_wait", {"0"}, "");
    const std::string text = completed(kernel(pair + waits));
    CHECK_THAT(text, ContainsSubstring("cp.async.cg.shared.global \t[%rd2], [%rd1+16], 16;"));
    CHECK_THAT(text, ContainsSubstring("cp.async.commit_group;\n\tcp.async.wait_group 0;"));
    CHECK(count(text, "ld.global") == 0);
    // Not what is read elsewhere, and not where nobody waits.
    CHECK(count(completed(kernel(pair + "\tadd.s64 \t%rd5, %rd3, 1;\n" + waits)), "cp.async.cg") == 0);
    CHECK(count(completed(kernel(pair + product(0, "%r11"))), "cp.async") == 0);
    CHECK(count(completed(kernel("\t@%p1 " + pair + waits)), "cp.async.cg") == 0);
}

TEST_CASE("an instruction of a whole warp is refused where a part of the warp may be alone") {
    const std::string thread = "\tmov.u32 \t%r20, %tid.x;\n\tsetp.lt.s32 \t%p1, %r20, 7;\n",
                      row = "\tmov.u32 \t%r20, %tid.y;\n\tsetp.lt.s32 \t%p1, %r20, 7;\n",
                      around = "\t@%p1 bra \t$L__BB0_2;\n", end = "$L__BB0_2:\n";
    const std::string sentence = "expected all threads of a warp to reach attune_mma_m16n8k16_bf16 together";
    CHECK_NOTHROW(completed(kernel(row + around + product(0, "%r11") + end)));
    CHECK_NOTHROW(completed(kernel(thread + around + "\tadd.s32 \t%r20, %r20, 1;\n" + end + product(0, "%r11"))));
    refuses(thread + around + product(0, "%r11") + end, sentence);
    // Differences hide behind a register, a load, a choice in a branch, a loop that some threads leave before others.
    refuses("\tmov.u32 \t%r20, %tid.x;\n\tld.shared.b32 \t%r21, [%r20];\n\tsetp.lt.s32 \t%p1, %r21, 7;\n" + around +
                product(0, "%r11") + end,
            sentence);
    refuses(thread + around + "\tmov.b32 \t%r30, 1;\n" + end +
                "\tsetp.eq.s32 \t%p2, %r30, 1;\n\t@%p2 bra \t$L__BB0_3;\n" + product(0, "%r11") + "$L__BB0_3:\n",
            sentence);
    refuses(thread + "$L__BB0_2:\n" + product(0, "%r11") +
                "\tadd.s32 \t%r20, %r20, 1;\n\tsetp.lt.s32 \t%p1, %r20, 7;\n" + around,
            sentence);
    refuses(thread + around + "\tbar.sync \t0;\n" + end + product(0, "%r11"), "reach bar.sync");
    // Numbers that all threads of a warp are told are the same for all.
    CHECK_NOTHROW(completed(kernel(thread +
                                   "\tvote.sync.ballot.b32 \t%r21, %p1, -1;\n\tsetp.eq.b32 \t%p2, %r21, 0;\n"
                                   "\t@%p2 bra \t$L__BB0_2;\n" +
                                   product(0, "%r11") + end)));
    // A result of the instruction differs from thread to thread, too.
    refuses(product(0, "%r11") + "\tsetp.lt.f32 \t%p1, %r11, %r12;\n" + around + product(0, "%r13") + end, sentence);
}

TEST_CASE("kernels without such calls stay as they are, and calls that nothing stands for are refused") {
    const std::string plain = kernel("\tmov.u32 \t%r1, %tid.x;\n" + call("vprintf", {"%r1"}, "%r2"));
    CHECK(completed(plain) == plain);
    const std::string declared =
        ".extern .func  (.param .b32 func_retval0) attune_pack_bf16\n(\n\t.param .b32 a\n)\n;\n";
    CHECK(completed(declared + plain) == plain);
    refuses(call("attune_mma_m8n8k4", {"%r1"}, "%r2"), "expected a name that stands for an instruction");
    refuses(call("attune_pack_bf16", {"%r1"}, "%r2"),
            "expected a call of attune_pack_bf16 with the operands of its instruction");
    refuses(
        "\t{ // callseq 9, 0\n\tmov.b32 \t%r1, %r2;\n\tcall.uni (retval0), attune_pack_bf16, ();\n\t} // callseq 9\n",
        "in the form that LLVM 20 writes");
}
