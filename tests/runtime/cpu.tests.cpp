#include "fake_variant.hpp"

#include <attune/runtime/cpu.hpp>
#include <attune/runtime/error.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>

using attune::cpu_state, attune::limited_to, attune::missing_for, attune::runs;
using Catch::Matchers::ContainsSubstring, Catch::Matchers::MessageMatches;

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
    cpu.leaf_7.ecx = bits({1, 6, 8, 9, 10, 11, 12, 14});
    cpu.leaf_7_1.eax = bits({5});
    cpu.leaf_80000001.ecx = bits({0, 5, 6});
    cpu.xcr0 = 0xe7;
    return cpu;
}

}  // namespace

TEST_CASE("a complete CPU runs every x86-64 level") {
    for (const auto level : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16"})
        CHECK(missing_for(level, complete()) == "");
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

    cpu = complete();  // as Sapphire Rapids is
    cpu.leaf_80000001.ecx &= ~bits({6});
    CHECK(runs("x86-64-v4", cpu));
    CHECK(missing_for("x86-64-v4-bf16", cpu) == "sse4a");

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

TEST_CASE("tiles need the operating system's permission") {
    cpu_state cpu = complete();
    cpu.leaf_7.ecx |= bits({27, 28});
    cpu.leaf_7.edx = bits({22, 23, 24, 25});
    cpu.leaf_7_1.eax |= bits({4});
    cpu.xcr0 |= 0x60000;
    static int asked = 0;
    cpu.may_use_tiles = [] { return ++asked != 1; };
    CHECK(runs("x86-64-v4-bf16", cpu));
    CHECK(asked == 0);  // of no other level
    CHECK(missing_for("x86-64-v4-amx", cpu) == "the operating system's permission to use tile registers");
    CHECK(runs("x86-64-v4-amx", cpu));
    cpu.leaf_80000001.ecx &= ~bits({6});  // as Sapphire Rapids is
    CHECK(missing_for("x86-64-v4-bf16", cpu) == "sse4a");
    CHECK(runs("x86-64-v4-amx", cpu));
    const int before = asked;
    CHECK(missing_for("x86-64-v4-amx", limited_to("x86-64-v4", cpu)) == "a higher ATTUNE_MAX_LEVEL");
    CHECK(asked == before);  // who leaves the level out leaves the process as it is

    cpu.xcr0 = 0x200e7;  // half of their state
    CHECK(missing_for("x86-64-v4-amx", cpu) == "tile registers saved by the operating system");
    cpu.xcr0 = 0x600e7;
    cpu.may_use_tiles = nullptr;
    CHECK(missing_for("x86-64-v4-amx", cpu) == "the operating system's permission to use tile registers");
    cpu.leaf_7.edx = 0;
    CHECK_THAT(missing_for("x86-64-v4-amx", cpu), ContainsSubstring("avx512_fp16, amx_tile, amx_bf16, amx_int8"));
    CHECK(missing_for("x86-64-v4-bf16", complete()) == "");
}

TEST_CASE("machines of other kinds and levels without a name do not run") {
    cpu_state arm;
    arm.is = cpu_state::family::aarch64;
    CHECK(runs("aarch64", arm));
    CHECK(missing_for("x86-64-v3", arm) == "an x86-64 CPU");
    CHECK_THAT(missing_for("cuda", complete()), ContainsSubstring("a device or level that this build knows"));
    CHECK_FALSE(runs("", complete()));
}

TEST_CASE("levels beyond a limit are hidden, those within it are not") {
    const cpu_state v3 = limited_to("x86-64-v3", complete());
    CHECK(runs("x86-64-v2", v3));
    CHECK(runs("x86-64-v3", v3));
    CHECK(missing_for("x86-64-v4", v3) == "a higher ATTUNE_MAX_LEVEL");
    CHECK(missing_for("x86-64-v4-bf16", v3) == "a higher ATTUNE_MAX_LEVEL");
    CHECK(missing_for("aarch64", v3) == "an aarch64 CPU");
    CHECK_FALSE(runs("x86-64-v3", limited_to("x86-64-v2", complete())));
    CHECK_FALSE(runs("x86-64-v4-bf16", limited_to("x86-64-v4", complete())));
    CHECK(runs("x86-64-v4-bf16", limited_to("x86-64-v4-bf16", complete())));

    auto cpu = complete();  // a limit gives a CPU nothing, and what it lacks is said as well
    cpu.leaf_7.ebx &= ~bits({5, 16});
    CHECK(missing_for("x86-64-v3", limited_to("x86-64-v4-bf16", cpu)) == "avx2");
    CHECK(missing_for("x86-64-v4", limited_to("x86-64-v3", cpu)) == "avx2, avx512f, a higher ATTUNE_MAX_LEVEL");

    cpu_state arm;
    arm.is = cpu_state::family::aarch64;
    CHECK(runs("aarch64", limited_to("aarch64", arm)));
}

TEST_CASE("a limit is a level of such CPUs, or refused") {
    const auto refused = [](const std::string& wrong, const cpu_state& cpu, const std::string& known) {
        const std::string expected = "expected a level of CPUs of this kind (" + known + ") in ATTUNE_MAX_LEVEL";
        const auto said = ContainsSubstring(expected + ", got " + wrong + "; try one of these, or leaving it unset");
        CHECK_THROWS_MATCHES(limited_to(wrong, cpu), attune::error, MessageMatches(said));
    };
    for (const auto wrong : {"x86-64-v9", "x86-64-V3", "v3", " ", "aarch64", "opencl"})
        refused(wrong, complete(), "x86-64-v2; x86-64-v3; x86-64-v4; x86-64-v4-bf16; x86-64-v4-amx");
    cpu_state arm;
    arm.is = cpu_state::family::aarch64;
    refused("x86-64-v3", arm, "aarch64");
}

// Run with ATTUNE_MAX_LEVEL=x86-64-v9 (CMakeLists.txt): a process reads it once.
TEST_CASE("a process whose limit is no level has its calls refused, one after the other", "[.unknown limit]") {
    fake::call c;
    fake::reset();
    for (int i = 0; i < 2; ++i)
        CHECK_THAT(fake::refusal(c.arguments()), ContainsSubstring("in ATTUNE_MAX_LEVEL, got x86-64-v9; try "));
    CHECK_THROWS_AS(attune::kernels<fake::variant>(), attune::error);
    CHECK(fake::seen.calls == 0);
    ::unsetenv("ATTUNE_MAX_LEVEL");
    CHECK(fake::refusal(c.arguments()) == "");
    ::setenv("ATTUNE_MAX_LEVEL", "x86-64-v9", 1);  // the CPU was read
    CHECK(fake::refusal(c.arguments()) == "");
}

TEST_CASE("a model is written as files of schedules are called, or refused") {
    for (const auto right : {"generic", "amd-25-1", "intel-6-143", "arm-0x41-8-3407", "attune-0-0"})
        CHECK_NOTHROW(attune::check_cpu_model(right));
    for (const auto wrong : {"zen4", "amd", "amd-25", "AMD-25-1", "amd-25-1.json", "amd-25-", "amd--1", "-25-1", "25-1",
                             "amd 25-1", "amd-25-1 ", "amd-25-0x1", "Generic", " ", "-", "--", "native"}) {
        const auto said = ContainsSubstring(
            "expected a model of CPU (maker-family-model, such as amd-25-1; generic) "
            "in ATTUNE_CPU_MODEL, got " +
            std::string(wrong) + "; try the name of a file of schedules");
        CHECK_THROWS_MATCHES(attune::check_cpu_model(wrong), attune::error, MessageMatches(said));
    }
    if (const std::string here = attune::cpu_model_id(); !here.empty()) CHECK_NOTHROW(attune::check_cpu_model(here));
}

// Run with ATTUNE_CPU_MODEL=zen4 (CMakeLists.txt): a process reads it once.
TEST_CASE("a process whose model of CPU is written as none has its calls refused", "[.unknown model]") {
    fake::call c;
    fake::reset();
    for (int i = 0; i < 2; ++i)
        CHECK_THAT(fake::refusal(c.arguments()), ContainsSubstring("in ATTUNE_CPU_MODEL, got zen4; try "));
    CHECK(fake::seen.calls == 0);
    ::setenv("ATTUNE_CPU_MODEL", "amd-25-1", 1);
    CHECK(fake::refusal(c.arguments()) == "");
    CHECK(attune::this_cpu().model == "amd-25-1");
}

TEST_CASE("levels are ranked") {
    CHECK(attune::rank_of("x86-64-v2") < attune::rank_of("x86-64-v3"));
    CHECK(attune::rank_of("x86-64-v4") < attune::rank_of("x86-64-v4-bf16"));
    CHECK(attune::rank_of("x86-64-v4-bf16") < attune::rank_of("x86-64-v4-amx"));
    CHECK(attune::rank_of("host") == -1);
    CHECK(attune::cpu_levels().size() == 6);
}

TEST_CASE("this machine agrees with what the compiler's own detection says") {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    const char* const set = std::getenv("ATTUNE_MAX_LEVEL");
    const std::string_view most = set && *set ? set : "x86-64-v4-amx";
    CHECK(runs("x86-64-v2") == (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt")));
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    CHECK(runs("x86-64-v3") == (v3 && most != "x86-64-v2"));
    CHECK(runs("x86-64-v4") == (v4 && most.starts_with("x86-64-v4")));
#endif
}
