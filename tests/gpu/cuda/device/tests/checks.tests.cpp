// The refusals of the device in software: each check by a kernel of a few lines that makes the mistake, beside one that
// does not.
#include "small_kernel.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace ptx;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The line of a body, as a fault names it.
std::string line(int of_body) { return "k, line " + std::to_string(small_kernel::lines_before + of_body) + " `"; }

}  // namespace

TEST_CASE("a fault names the kernel, the line of PTX and the thread") {
    small_kernel wrong(own_words + "setp.eq.u32 %p0, %r0, 37;\n@%p0 ld.global.u32 %r1, [%rd3 + 4096];");
    CHECK_THAT(wrong.refused(64),
               ContainsSubstring(line(3) + "@%p0 ld.global.u32 %r1, [%rd3 + 4096];`, thread (37, 0, 0) of block (0, 0, "
                                           "0): expected an address in memory that "
                                           "was allocated, got 4 bytes at 0x"));
    CHECK(wrong.refused(32).empty());
}

TEST_CASE("loads, stores and sums outside of allocations are refused, of an allocation's last byte too") {
    const std::string last = own_words + "setp.eq.u32 %p0, %r0, 0;\n";
    for (const char* access :
         {"ld.global.u32 %r1, [%rd1 + ", "ld.global.v2.u32 {%r1, %r2}, [%rd1 + ", "ld.u32 %r1, [%rd1 + "}) {
        INFO(access);
        CHECK(small_kernel(last + "@%p0 " + access + "1016];").refused().empty());
        CHECK_THAT(small_kernel(last + "@%p0 " + access + "1024];").refused(),
                   ContainsSubstring("expected an address in memory that was allocated"));
    }
    CHECK_THAT(small_kernel(last + "@%p0 st.global.u32 [%rd0 + 1024], %r0;").refused(),
               ContainsSubstring("memory that was allocated"));
    CHECK_THAT(small_kernel(last + "@%p0 red.global.add.u32 [%rd0 + 1024], %r0;").refused(),
               ContainsSubstring("memory that was allocated"));
    CHECK_THAT(small_kernel("mov.u32 %r1, 0; cp.async.cg.shared.global [%r1], [%rd1 + 1016], 16;").refused(),
               ContainsSubstring("expected an address"));
}

TEST_CASE("accesses to shared memory beyond a block's are refused, and to a thread's own memory") {
    CHECK(small_kernel("st.shared.u32 [4092], %r0;").refused().empty());
    CHECK_THAT(
        small_kernel("st.shared.u32 [4096], %r0;").refused(),
        ContainsSubstring("expected an address in the block's shared memory (byte 4096 of 4096 of shared memory)"));
    CHECK(small_kernel(".local .align 4 .b8 mine[16];\nst.local.u32 [mine + 12], %r0;").refused().empty());
    CHECK_THAT(small_kernel(".local .align 4 .b8 mine[16];\nst.local.u32 [mine + 16], %r0;").refused(),
               ContainsSubstring("expected an address in the thread's own memory of 16 bytes"));
}

TEST_CASE("addresses that are no multiple of an access's size are refused") {
    CHECK(small_kernel("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1 + 32];").refused().empty());
    CHECK_THAT(small_kernel("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1 + 8];").refused(),
               ContainsSubstring("expected an address that is a multiple of 16, the access's size"));
    CHECK_THAT(small_kernel("st.shared.v2.u32 [4], {%r0, %r0};").refused(),
               ContainsSubstring("expected an address that is a multiple of the access's size"));
    CHECK_THAT(small_kernel("mov.u32 %r1, 8; cp.async.cg.shared.global [%r1], [%rd1], 16;").refused(),
               ContainsSubstring("multiple of the access's size"));
}

TEST_CASE("shared memory that no thread wrote is refused to be read") {
    CHECK(small_kernel("st.shared.u32 [8], %r0;\nld.shared.u32 %r1, [8];").refused().empty());
    CHECK_THAT(small_kernel("st.shared.u32 [8], %r0;\nld.shared.v2.u32 {%r1, %r2}, [8];").refused(),
               ContainsSubstring(line(2) + "ld.shared.v2.u32 {%r1, %r2}, [8];`, thread (0, 0, 0) of block (0, 0, 0): "
                                           "expected to read what some thread wrote"));
}

TEST_CASE("two warps at a place between two barriers are a race, if one of them writes") {
    const std::string first = "setp.lt.u32 %p0, %r0, 32;\n@%p0 st.shared.u32 [16], %r0;\n", barrier = "bar.sync 0;\n";
    CHECK(small_kernel(first + barrier + "ld.shared.u32 %r1, [16];").refused(64, true).empty());
    CHECK_THAT(small_kernel(first + "ld.shared.u32 %r1, [16];").refused(64, true),
               ContainsSubstring("expected a barrier before a read of what another warp writes, got none: a race"));
    CHECK(small_kernel(first + barrier + "@!%p0 st.shared.u32 [16], %r0;").refused(64, true).empty());
    CHECK_THAT(small_kernel(first + "@!%p0 st.shared.u32 [16], %r0;").refused(64, true),
               ContainsSubstring("expected a barrier between two warps' writes to a place"));
    const std::string read = first + barrier + "ld.shared.u32 %r1, [16];\n";
    CHECK(small_kernel(read + barrier + "@!%p0 st.shared.u32 [16], %r0;").refused(64, true).empty());
    CHECK_THAT(small_kernel(read + "@!%p0 st.shared.u32 [16], %r0;").refused(64, true),
               ContainsSubstring("expected a barrier before a write of what another warp reads"));
    CHECK(small_kernel(first + "ld.shared.u32 %r1, [16];").refused(64, false).empty());  // it was not looked for
    CHECK(small_kernel("st.shared.u32 [16], %r0;\nld.shared.u32 %r1, [16];")
              .refused(32, true)
              .empty());  // a warp's threads run together
}

TEST_CASE("instructions of a whole warp are refused to a part of it, and to a block without one") {
    const std::string part = "setp.lt.u32 %p0, %r0, 16;\n@%p0 bra over;\n", end = "\nover:\n";
    const std::string product =
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r1,%r2,%r3,%r4}, {%r5,%r6,%r7,%r8}, {%r9,%r10}, "
        "{%r11,%r12,%r13,%r14};";
    const std::string matrix =
        "st.shared.u32 [0], %r0; st.shared.u32 [4], %r0; st.shared.u32 [8], %r0; st.shared.u32 [12], %r0; mov.u32 %r1, "
        "0;\n"
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1];";
    const std::string shuffle = "shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;";
    for (const std::string& whole : {product, matrix}) {
        CHECK(small_kernel(whole).refused().empty());
        CHECK_THAT(small_kernel(part + whole + end).refused(),
                   ContainsSubstring("expected all 32 threads of a warp at an instruction of the whole warp, got 16"));
        CHECK_THAT(small_kernel(whole).refused(48),
                   ContainsSubstring("thread (32, 0, 0) of block (0, 0, 0): expected all 32 threads"));
    }
    CHECK(small_kernel(shuffle).refused().empty());
    CHECK_THAT(small_kernel(part + shuffle + end).refused(),
               ContainsSubstring("expected all threads that a shuffle names, got 16 of 32"));
}

TEST_CASE("a barrier is refused to a part of a warp") {
    CHECK_THAT(small_kernel("setp.lt.u32 %p0, %r0, 5;\n@%p0 bra over;\nbar.sync 0;\nover:\n").refused(),
               ContainsSubstring(line(3) + "bar.sync 0;`, thread (5, 0, 0) of block (0, 0, 0): expected all threads of "
                                           "a warp at a barrier, got 27 of 32"));
    CHECK(small_kernel("setp.lt.u32 %p0, %r0, 5;\n@%p0 ret;\nbar.sync 0;")
              .refused(64)
              .empty());  // those that are done are not waited for
}

TEST_CASE("some warps of a block meet at a barrier with a number, and one that nobody comes to is refused") {
    // Threads from 32 on wait for those before them.
    const std::string parts = "setp.ge.u32 %p0, %r0, 32;\n";
    CHECK(small_kernel(parts + "@%p0 bar.sync 1, 64;\n@!%p0 bar.arrive 1, 64;").refused(64).empty());
    CHECK_THAT(small_kernel(parts + "@%p0 bar.sync 1, 64;").refused(64),
               ContainsSubstring("expected the threads that a barrier names, got some that wait for ever"));
    CHECK_THAT(small_kernel(parts + "@%p0 bar.sync 1, 64;\n@!%p0 bar.arrive 1, 96;").refused(64),
               ContainsSubstring("threads at barrier 1, as those that have arrived do, got "));
    CHECK_THAT(small_kernel("setp.lt.u32 %p0, %r0, 5;\n@%p0 bar.sync 1, 32;").refused(),
               ContainsSubstring("expected all threads of a warp at a barrier, got a part of them"));
}

TEST_CASE("a copy is refused to be read or overwritten before it was waited for") {
    const std::string copy =
        "shl.b32 %r1, %r0, 4; and.b32 %r1, %r1, 255; cvt.u64.u32 %rd2, %r1; add.s64 %rd3, %rd1, %rd2; setp.lt.u32 %p0, "
        "%r0, 16;\n"
        "@%p0 cp.async.cg.shared.global [%r1], [%rd3], 16;\ncp.async.commit_group;\n";
    CHECK(small_kernel(copy + "cp.async.wait_group 0;\nld.shared.u32 %r2, [%r1];").refused().empty());
    CHECK_THAT(small_kernel(copy + "ld.shared.u32 %r2, [%r1];").refused(),
               ContainsSubstring("expected a copy that was waited for, got one on its way to what is read"));
    CHECK_THAT(small_kernel(copy + "cp.async.wait_group 1;\nld.shared.u32 %r2, [%r1];").refused(),
               ContainsSubstring("got one on its way to what is read"));
    CHECK_THAT(small_kernel(copy + "st.shared.u32 [%r1], %r0;").refused(),
               ContainsSubstring("got one on its way to what is written"));
    CHECK(small_kernel(copy + copy + "cp.async.wait_all;").refused().find("what is written") != std::string::npos);
}

TEST_CASE("a copy that has arrived is another warp's only after a barrier") {
    const std::string copy =
        "setp.eq.u32 %p0, %r0, 0; mov.u32 %r1, 0;\n@%p0 cp.async.cg.shared.global [%r1], [%rd1], "
        "16;\ncp.async.wait_all;\n";
    CHECK(small_kernel(copy + "bar.sync 0;\nld.shared.u32 %r2, [%r1];").refused(64, true).empty());
    CHECK_THAT(small_kernel(copy + "ld.shared.u32 %r2, [%r1];").refused(64, true),
               ContainsSubstring("thread (32, 0, 0) of block (0, 0, 0): expected a barrier before a read"));
}

TEST_CASE("a trap is a fault, if a thread comes to it") {
    CHECK_THAT(small_kernel("trap;").refused(), ContainsSubstring("expected no trap, got one"));
    CHECK(small_kernel("setp.gt.u32 %p0, %r0, 99;\n@%p0 trap;").refused().empty());
}

TEST_CASE("what the device does not know is refused when a module is loaded, with its line") {
    const auto said = [](const std::string& body, const char* card = "sm_90a",
                         const char* target = "sm_80") -> std::string {
        try {
            small_kernel made(body, card, target);
        } catch (const std::exception& wrong) {
            return wrong.what();
        }
        return "";
    };
    CHECK(said("\nadd.rz.f32 %f1, %f2, %f3;") ==
          "line 9 of the PTX: expected an instruction that this device has, got add.rz.f32");
    CHECK_THAT(said("add.f32 %f1, %f2;"), ContainsSubstring("expected 3 operands of add.f32, got 2"));
    CHECK_THAT(said("add.f32 %f1, %g2, %f3;"), ContainsSubstring("expected a register of at most 32 bits, got %g2"));
    CHECK_THAT(said("add.s64 %rd1, %r2, %rd3;"), ContainsSubstring("expected a register of 64 bits, got %r2"));
    CHECK_THAT(said("bra nowhere;"), ContainsSubstring("expected a label of k, got nowhere"));
    CHECK_THAT(said("call.uni f, ();"), ContainsSubstring("expected a kernel without calls, got one of f"));
    CHECK_THAT(said("bar.sync 1;"), ContainsSubstring("expected bar.sync 0"));
    CHECK_THAT(said("bar.sync 1, 40;"), ContainsSubstring("expected threads of whole warps at a barrier, got 40"));
    CHECK_THAT(said("bar.sync 1, %r0;"), ContainsSubstring("expected the numbers of a barrier and of its threads"));
    CHECK_THAT(said("wgmma.fence.sync.aligned;", "sm_80"),
               ContainsSubstring("expected instructions that sm_80 has, got wgmma; try PTX_CARD=sm_90a"));
    CHECK(said("wgmma.fence.sync.aligned;", "sm_90a", "sm_90a").empty());
    CHECK(said("", "sm_80", "sm_90") == "expected PTX that sm_80 runs, got PTX for sm_90");
    CHECK(said("", "sm_120", "sm_90a") == "expected PTX that sm_120 runs, got PTX for sm_90a");
    CHECK(said("", "sm_120", "sm_90").empty());
    CHECK(said("", "sm_87") == "expected a card among sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100, sm_120, got sm_87");
}
