#include <attune/runtime/detail/choice.hpp>
#include <attune/runtime/error.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <limits>
#include <optional>
#include <string_view>

using attune::detail::choose, attune::detail::kernel_request;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

constexpr auto f32 = attune::element_type::f32;
constexpr auto bf16 = attune::element_type::bf16;

attune::kernel compiled(const char* target, attune::element_type e, int depth, int value_depth) {
    return {.symbol = target,
            .target = target,
            .query = e,
            .key = e,
            .value = e,
            .output = e,
            .depth = depth,
            .value_depth = value_depth,
            .query_block = 16,
            .key_block = 16,
            .scratch_bytes = 0,
            .schedule = "{}",
            .call = nullptr,
            .blocks = nullptr};
}
const attune::kernel kernels[] = {
    compiled("x86-64-v4-bf16", bf16, 64, 64), compiled("x86-64-v4", f32, 64, 64), compiled("x86-64-v3", f32, 64, 64),
    compiled("x86-64-v3", f32, 64, 32),       compiled("x86-64-v2", f32, 64, 64),
};
const attune::kernel_table table{attune::kernel_table_version, "my::alibi", {}, kernels};

attune::cpu_state cpu_of(int level) {  // 2, 3 or 4
    attune::cpu_state cpu;
    cpu.is = attune::cpu_state::family::x86_64;
    cpu.leaf_1.ecx = 1u << 0 | 1u << 9 | 1u << 13 | 1u << 19 | 1u << 20 | 1u << 23;
    cpu.leaf_80000001.ecx = 1u << 0;
    if (level >= 3)
        cpu.leaf_1.ecx |= 1u << 12 | 1u << 22 | 1u << 28 | 1u << 29, cpu.leaf_7.ebx |= 1u << 3 | 1u << 5 | 1u << 8,
            cpu.leaf_80000001.ecx |= 1u << 5, cpu.xcr0 = 0x7;
    if (level >= 4) cpu.leaf_7.ebx |= 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31, cpu.xcr0 = 0xe7;
    return cpu;
}

kernel_request asked(attune::element_type e, std::int64_t depth, std::int64_t value_depth,
                     std::string_view target = {}) {
    return {.query = e,
            .key = e,
            .value = e,
            .output = e,
            .depth = depth,
            .value_depth = value_depth,
            .target = target,
            .forced_by = "ATTUNE_TARGET"};
}

}  // namespace

TEST_CASE("the most demanding level that runs is chosen") {
    CHECK(choose(table, asked(f32, 64, 64), cpu_of(4), false).chosen == &kernels[1]);
    CHECK(choose(table, asked(f32, 64, 64), cpu_of(3), false).chosen == &kernels[2]);
    CHECK(choose(table, asked(f32, 64, 64), cpu_of(2), false).chosen == &kernels[4]);
    CHECK(choose(table, asked(f32, 64, 32), cpu_of(4), false).chosen == &kernels[3]);
    const auto without_os = [] {
        auto cpu = cpu_of(4);
        cpu.xcr0 = 0;
        return cpu;
    }();
    CHECK(choose(table, asked(f32, 64, 64), without_os, false).chosen == &kernels[4]);

    const auto made = choose(table, asked(f32, 64, 64), cpu_of(3), true);
    CHECK(made.why ==
          "the most demanding level of those linked (x86-64-v4; x86-64-v3; x86-64-v2) that this CPU runs; "
          "x86-64-v4: lacks avx512f, avx512dq, avx512cd, avx512bw, avx512vl, zmm registers saved by the operating "
          "system");
}

TEST_CASE("what is not known of a call is not asked for") {
    kernel_request request{.query = f32, .key = f32, .depth = 64};
    CHECK(choose(table, request, cpu_of(3), false).chosen == &kernels[2]);
}

TEST_CASE("a forced level is used or refused") {
    CHECK(choose(table, asked(f32, 64, 64, "x86-64-v2"), cpu_of(4), false).chosen == &kernels[4]);
    CHECK_THROWS_MATCHES(
        choose(table, asked(f32, 64, 64, "x86-64-v4"), cpu_of(3), false), attune::error,
        MessageMatches(
            ContainsSubstring("expected a level that this CPU runs in ATTUNE_TARGET, got x86-64-v4: lacks avx512f") &&
            ContainsSubstring("; try x86-64-v3; x86-64-v2, which are linked and run here")));
    CHECK_THROWS_MATCHES(
        choose(table, asked(f32, 64, 64, "x86-64-v5"), cpu_of(3), false), attune::error,
        MessageMatches(ContainsSubstring("expected one of the linked levels of my::alibi (x86-64-v4; x86-64-v3; "
                                         "x86-64-v2) in ATTUNE_TARGET, got x86-64-v5; try x86-64-v3; x86-64-v2")));
    CHECK_THROWS_MATCHES(choose(table, asked(f32, 64, 32, "x86-64-v4"), cpu_of(4), false), attune::error,
                         MessageMatches(ContainsSubstring("try x86-64-v3, which")));
}

TEST_CASE("what was not compiled is refused with what was") {
    CHECK_THROWS_MATCHES(
        choose(table, asked(attune::element_type::f16, 64, 64), cpu_of(4), false), attune::error,
        MessageMatches(ContainsSubstring("expected element types that my::alibi was compiled for (bf16; f32), got "
                                         "q:f16,k:f16,v:f16,out:f16; try adding them to DTYPES")));
    CHECK_THROWS_MATCHES(choose(table, asked(f32, 80, 80), cpu_of(4), false), attune::error,
                         MessageMatches(ContainsSubstring("(64x64; 64x32), got 80x80; try adding them to DEPTHS")));
    CHECK_THROWS_MATCHES(
        choose(table, asked(bf16, 64, 64), cpu_of(4), false), attune::error,
        MessageMatches(ContainsSubstring("expected a CPU for one of the linked kernels of my::alibi (x86-64-v4-bf16), "
                                         "got this one (x86-64-v4-bf16: lacks avx512_ifma") &&
                       ContainsSubstring("try adding a less demanding level")));
}

namespace {
attune::kernel serving(const char* target, attune::shape_class shapes, int from, int to) {
    attune::kernel k = compiled(target, f32, 64, 64);
    k.shapes = shapes, k.from_queries = from, k.to_queries = to;
    return k;
}
constexpr auto prefill = attune::shape_class::prefill;
constexpr auto decode = attune::shape_class::decode;
constexpr int no_end = std::numeric_limits<int>::max();
}  // namespace

TEST_CASE("of the kernels of a level the one that serves the number of queries is chosen, at every boundary") {
    const attune::kernel several[] = {serving("x86-64-v4", prefill, 1, no_end),
                                      serving("x86-64-v3", prefill, 1, no_end), serving("x86-64-v3", decode, 1, 16),
                                      serving("x86-64-v3", prefill, 17, 128), serving("x86-64-v2", decode, 1, 4)};
    const attune::kernel_table linked{attune::kernel_table_version, "my::alibi", {}, several};
    const auto chosen = [&](int level, std::optional<std::int64_t> queries, std::string_view target = {}) {
        kernel_request request = asked(f32, 64, 64, target);
        request.queries = queries;
        return choose(linked, request, cpu_of(level), false).chosen - several;
    };
    for (const std::int64_t queries : {0, 1, 2, 15, 16}) CHECK(chosen(3, queries) == 2);
    for (const std::int64_t queries : {17, 18, 127, 128}) CHECK(chosen(3, queries) == 3);
    for (const std::int64_t queries : {129, 100000}) CHECK(chosen(3, queries) == 1);
    CHECK(chosen(3, std::nullopt) == 1);  // whichever comes first
    CHECK(chosen(4, 1) == 0);             // the level comes first
    CHECK(chosen(4, 1, "x86-64-v3") == 2);
    for (const std::int64_t queries : {1, 5, 100})
        CHECK(chosen(2, queries) == 4);  // serves none of them so well, but there is no other

    kernel_request request = asked(f32, 64, 64);
    request.queries = 3;
    CHECK(choose(linked, request, cpu_of(3), true).why_shapes ==
          "decode, for 1 to 16 queries (also linked: prefill, for any number of queries; prefill, for 17 to 128 "
          "queries)");
}

TEST_CASE("a kernel that asks for aligned rows is taken where a call has them, before one that does not") {
    attune::kernel several[] = {serving("x86-64-v3", prefill, 1, no_end), serving("x86-64-v3", prefill, 1, no_end),
                                serving("x86-64-v3", decode, 1, 16)};
    several[1].row_alignment = 16;
    const attune::kernel_table linked{attune::kernel_table_version, "my::alibi", {}, several};
    const auto chosen = [&](int alignment, std::optional<std::int64_t> queries) {
        kernel_request request = asked(f32, 64, 64);
        request.row_alignment = alignment, request.queries = queries;
        return choose(linked, request, cpu_of(3), false).chosen - several;
    };
    for (const int alignment : {16, 32, 1 << 30}) CHECK(chosen(alignment, 100) == 1);
    for (const int alignment : {1, 2, 8}) CHECK(chosen(alignment, 100) == 0);
    for (const int alignment : {2, 16}) CHECK(chosen(alignment, 16) == 2);  // the number of queries comes first

    kernel_request request = asked(f32, 64, 64);
    request.queries = 100;
    CHECK_THAT(choose(linked, request, cpu_of(3), true).why_shapes,
               ContainsSubstring("prefill, for any number of queries, by tensor cores, which take rows that begin at "
                                 "multiples of 16 bytes (also linked: prefill, for any number of queries; "));
    request.row_alignment = 2;
    CHECK_THAT(choose(linked, request, cpu_of(3), true).why_shapes,
               ContainsSubstring("prefill, for any number of queries (also linked: prefill, for any number of queries, "
                                 "by tensor cores, which take rows that begin at multiples of 16 bytes; "));
}

TEST_CASE("a kernel for one compute capability is taken where all devices have it, before one for all cards") {
    attune::kernel both[] = {serving("cuda", prefill, 1, no_end), serving("cuda", prefill, 1, no_end)};
    both[1].capability = 90;
    attune::kernel_table linked{attune::kernel_table_version, "my::alibi", {}, both};
    static const attune::detail::device_runtime hopper{[](const char*, int) { return ""; }, nullptr},
        ampere{[](const char*, int capability) { return capability == 90 ? "compute capability 9.0" : ""; }, nullptr};
    kernel_request request = asked(f32, 64, 64, "cuda");
    request.queries = 100;
    linked.devices = &hopper;
    CHECK(choose(linked, request, cpu_of(3), false).chosen == &both[1]);
    CHECK_THAT(choose(linked, request, cpu_of(3), true).why_shapes,
               ContainsSubstring("for any number of queries and cards of compute capability 9.0"));
    linked.devices = &ampere;
    const auto taken = choose(linked, request, cpu_of(3), true);
    CHECK(taken.chosen == &both[0]);
    CHECK_THAT(taken.why, ContainsSubstring("cuda: lacks compute capability 9.0"));
}

TEST_CASE("a kernel runs on the models that it was measured on, and on those near them that have none") {
    attune::kernel several[] = {serving("x86-64-v3", decode, 1, 4), serving("x86-64-v3", prefill, 1, no_end),
                                serving("x86-64-v3", prefill, 1, 64), serving("x86-64-v3", prefill, 1, no_end),
                                serving("x86-64-v4", prefill, 1, no_end)};
    several[0].cpus = "intel-6-8", several[1].cpus = "amd-25-17,intel-6-85", several[2].cpus = "amd-25-17";
    several[4].cpus = "intel-6-85";
    const attune::kernel_table linked{attune::kernel_table_version, "my::alibi", {}, several};
    const auto chosen = [&](std::string_view model, std::optional<std::int64_t> queries) {
        attune::cpu_state cpu = cpu_of(4);
        cpu.model = model;
        kernel_request request = asked(f32, 64, 64);
        request.queries = queries;
        return choose(linked, request, cpu, false).chosen - several;
    };
    CHECK(chosen("amd-25-17", 1) == 2);
    CHECK(chosen("amd-25-17", 65) == 1);
    CHECK(chosen("intel-6-85", 1) == 4);  // the level comes first
    CHECK(chosen("intel-6-8", 1) == 0);
    CHECK(chosen("intel-6-8", 5) == 3);
    for (const char* other : {"", "generic", "amd-26-17", "amd-2-17", "25-17", "intel-6", ",", "amd-25-17,intel-6-85",
                              "amd-25-x", "amd-25-", "arm-0x41-8-17"})
        for (const std::int64_t queries : {1, 100}) CHECK(chosen(other, queries) == 3);
    CHECK(chosen("amd-25-1", 1) == 2);  // those of amd-25-17
    CHECK(chosen("amd-25-97", 65) == 1);
    CHECK(chosen("intel-6-10", 1) == 0);   // 8 is nearer than 85
    CHECK(chosen("intel-6-143", 1) == 1);  // 85 is; what it has of level 4 serves it alone
    CHECK(chosen("amd-25-17", std::nullopt) == 1);

    attune::cpu_state cpu = cpu_of(3);
    kernel_request request = asked(f32, 64, 64);
    cpu.model = "amd-25-18", request.queries = 64;
    CHECK_THAT(choose(linked, request, cpu, true).why_shapes,
               ContainsSubstring("prefill, for 1 to 64 queries, with a schedule measured on amd-25-17, the measured "
                                 "model nearest to this CPU, amd-25-18 (also linked: "));
    cpu.model = "amd-25-17";
    CHECK(choose(linked, request, cpu, true).why_shapes ==
          "prefill, for 1 to 64 queries, with a schedule measured on amd-25-17 (also linked: decode, for 1 to 4 "
          "queries, with a schedule measured on intel-6-8; prefill, for any number of queries, with a schedule "
          "measured on amd-25-17,intel-6-85; prefill, for any number of queries)");
}

TEST_CASE("the nearest model is looked for at the level that is chosen") {
    attune::kernel several[] = {serving("x86-64-v4", prefill, 1, no_end), serving("x86-64-v4", prefill, 1, no_end),
                                serving("x86-64-v3", prefill, 1, no_end), serving("x86-64-v3", prefill, 1, no_end)};
    several[0].cpus = "amd-25-17", several[2].cpus = "amd-25-1";
    const attune::kernel_table linked{attune::kernel_table_version, "my::alibi", {}, several};
    const auto chosen = [&](int level, std::string_view model, std::optional<std::int64_t> queries) {
        attune::cpu_state cpu = cpu_of(level);
        cpu.model = model;
        kernel_request request = asked(f32, 64, 64);
        request.queries = queries;
        return choose(linked, request, cpu, false).chosen - several;
    };
    for (const std::optional<std::int64_t> queries : {std::optional<std::int64_t>(), std::optional<std::int64_t>(7)}) {
        CHECK(chosen(4, "amd-25-17", queries) == 0);
        CHECK(chosen(4, "amd-25-2", queries) == 0);   // 1 is nearer, but of level 3
        CHECK(chosen(3, "amd-25-16", queries) == 2);  // and 17 of level 4
        CHECK(chosen(4, "amd-25-1", queries) == 1);   // has its own, though of level 3
        CHECK(chosen(3, "amd-25-17", queries) == 3);
        CHECK(chosen(4, "amd-26-17", queries) == 1);
    }
    several[0].cpus = "arm-0x41-8-3340";
    CHECK(chosen(4, "arm-0x41-8-3340", 1) == 0);
    CHECK(chosen(4, "arm-0x41-8-3341", 1) == 1);  // numbers of Arm's parts have no order
}

TEST_CASE("a GPU has to be asked for, and says what it lacks") {
    const attune::kernel both[] = {compiled("x86-64-v2", f32, 64, 64), compiled("opencl", f32, 64, 64),
                                   compiled("cuda", f32, 64, 64)};
    attune::kernel_table linked{attune::kernel_table_version, "my::alibi", {}, both};
    const auto forced = [](const char* target) { return asked(f32, 64, 64, target); };
    CHECK(choose(linked, asked(f32, 64, 64), cpu_of(4), false).chosen == &both[0]);
    CHECK_THROWS_MATCHES(
        choose(linked, forced("opencl"), cpu_of(4), false), attune::error,
        MessageMatches(ContainsSubstring(
            "expected a machine that runs opencl kernels, as ATTUNE_TARGET asks, got opencl: lacks attune::gpu")));
    static const attune::detail::device_runtime one_of_two{
        [](const char* target, int) { return std::string_view(target) == "cuda" ? "a CUDA device" : ""; }, nullptr};
    linked.devices = &one_of_two;
    CHECK(choose(linked, asked(f32, 64, 64), cpu_of(4), false).chosen == &both[0]);
    CHECK(choose(linked, forced("opencl"), cpu_of(4), false).chosen == &both[1]);
    CHECK_THROWS_MATCHES(choose(linked, forced("cuda"), cpu_of(4), false), attune::error,
                         MessageMatches(ContainsSubstring("got cuda: lacks a CUDA device; try x86-64-v2; opencl")));
    linked.kernels = std::span(both).subspan(1);
    CHECK_THROWS_MATCHES(
        choose(linked, asked(f32, 64, 64), cpu_of(4), false), attune::error,
        MessageMatches(ContainsSubstring("expected a kernel for the CPU among the linked ones of my::alibi (opencl; "
                                         "cuda), got none; try attune::options::target")));
}
