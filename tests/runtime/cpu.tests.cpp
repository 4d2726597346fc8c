#include <attune/runtime/cpu.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using Catch::Matchers::ContainsSubstring;
using attune::cpu_state, attune::missing_for, attune::runs;

namespace {

constexpr std::uint32_t bits(std::initializer_list<int> set) {
    std::uint32_t word = 0;
    for (const int bit : set) word |= 1u << bit;
    return word;
}

/// A CPU with every feature up to v4-bf16, under an operating system that saves all registers.
cpu_state complete() {
    cpu_state cpu;
    cpu.is = cpu_state::family::x86_64;
    cpu.leaf_1.ecx = bits({0, 9, 12, 13, 19, 20, 22, 23, 27, 28, 29});
    cpu.leaf_7.eax = 1;
    cpu.leaf_7.ebx = bits({3, 5, 8, 16, 17, 21, 28, 30, 31});
    cpu.leaf_7.ecx = bits({1, 6, 11, 12, 14});
    cpu.leaf_7_1.eax = bits({5});
    cpu.leaf_80000001.ecx = bits({0, 5});
    cpu.xcr0 = 0xe7;
    return cpu;
}

}  // namespace

TEST_CASE("a complete CPU runs every x86-64 level") {
    for (const auto level : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16"}) CHECK(missing_for(level, complete()) == "");
    CHECK(missing_for("aarch64", complete()) == "an aarch64 CPU");
}

TEST_CASE("a feature counts only if the operating system saves its registers") {
    auto cpu = complete();
    cpu.xcr0 = 0x7;  // ymm, not zmm
    CHECK(runs("x86-64-v3", cpu));
    CHECK(missing_for("x86-64-v4", cpu) == "zmm registers saved by the operating system");
    CHECK_FALSE(runs("x86-64-v4-bf16", cpu));
    cpu.xcr0 = 0x27;  // opmask, but half of the zmm state
    CHECK_FALSE(runs("x86-64-v4", cpu));
    cpu.xcr0 = 0x3;  // x87 and SSE
    CHECK(runs("x86-64-v2", cpu));
    CHECK(missing_for("x86-64-v3", cpu) == "ymm registers saved by the operating system");
    CHECK(missing_for("x86-64-v4", cpu) == "ymm registers saved by the operating system");
    cpu.xcr0 = 0;  // no OSXSAVE at all
    CHECK_FALSE(runs("x86-64-v3", cpu));
}

TEST_CASE("a level needs each of its features, and those of the levels below") {
    auto cpu = complete();
    cpu.leaf_7.ebx &= ~bits({16});
    CHECK(missing_for("x86-64-v4", cpu) == "avx512f");
    CHECK(missing_for("x86-64-v4-bf16", cpu) == "avx512f");
    CHECK(runs("x86-64-v3", cpu));

    cpu = complete();
    cpu.leaf_7_1.eax = 0;
    CHECK(runs("x86-64-v4", cpu));
    CHECK(missing_for("x86-64-v4-bf16", cpu) == "avx512_bf16");

    cpu = complete();
    cpu.leaf_7.ecx &= ~bits({11, 14});
    CHECK(missing_for("x86-64-v4-bf16", cpu) == "avx512_vnni, avx512_vpopcntdq");

    cpu = complete();
    cpu.leaf_80000001.ecx &= ~bits({5});
    CHECK(missing_for("x86-64-v3", cpu) == "lzcnt");
    cpu.leaf_1.ecx &= ~bits({12, 22});
    CHECK(missing_for("x86-64-v3", cpu) == "fma, movbe, lzcnt");
    CHECK(runs("x86-64-v2", cpu));
    cpu.leaf_1.ecx &= ~bits({23});
    CHECK_FALSE(runs("x86-64-v2", cpu));
}

TEST_CASE("machines of other kinds and levels without a name do not run") {
    cpu_state arm;
    arm.is = cpu_state::family::aarch64;
    CHECK(runs("aarch64", arm));
    CHECK(missing_for("x86-64-v3", arm) == "an x86-64 CPU");
    CHECK_THAT(missing_for("cuda", complete()), ContainsSubstring("a device or level that this build knows"));
    CHECK_FALSE(runs("", complete()));
}

TEST_CASE("levels are ranked") {
    CHECK(attune::rank_of("x86-64-v2") < attune::rank_of("x86-64-v3"));
    CHECK(attune::rank_of("x86-64-v4") < attune::rank_of("x86-64-v4-bf16"));
    CHECK(attune::rank_of("host") == -1);
    CHECK(attune::cpu_levels().size() == 5);
}

TEST_CASE("this machine agrees with what the compiler's own detection says") {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    CHECK(runs("x86-64-v2") == (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt")));
    CHECK(runs("x86-64-v3") == (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")));
    CHECK(runs("x86-64-v4") == (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")));
#endif
}
