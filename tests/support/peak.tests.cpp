#include "peak.hpp"

#include <attune/runtime/cpu.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>
#include <stdexcept>

using namespace attune::support;
using Catch::Matchers::WithinRel;

namespace {

/// Bursts as they would be on a machine that others use: one rate after the other, the last for good.
struct given_rates {
    std::vector<double> rates;
    int* asked;
    double operator()(const instruction&, int) const {
        const auto at = static_cast<std::size_t>((*asked)++);
        return rates[std::min(at, rates.size() - 1)];
    }
};

const instruction& any() { return instruction_of("", "{}"); }

}  // namespace

#if defined(__x86_64__)
TEST_CASE("what a kernel multiplies with follows from its level and its schedule") {
    const auto lanes_of = [](const char* level) { return instruction_of(level, R"({"pairing":1})").lanes; };
    CHECK(lanes_of("x86-64-v2") == 4);
    CHECK(lanes_of("x86-64-v3") == 8);
    CHECK(lanes_of("x86-64-v4") == 16);
    const instruction& single = instruction_of("x86-64-v4-bf16", R"({"shapes":"decode","pairing":1})");
    CHECK(&single == &instruction_of("x86-64-v4", ""));
    CHECK((single.name == "multiply-add" && single.pairs == 1));
    const instruction& paired = instruction_of("x86-64-v4-bf16", R"({"shapes":"prefill","pairing":2})");
    CHECK((paired.name == "vdpbf16ps" && paired.lanes == 16 && paired.pairs == 2));
    CHECK(paired.sums >= 12);
    CHECK(paired.flops(10) == 2.0 * 10 * 16 * 2 * paired.sums);
    CHECK_THROWS_AS(instruction_of("x86-64-v4", R"({"pairing":2})"), std::runtime_error);
    const instruction& tiled = instruction_of("x86-64-v4-amx", R"({"shapes":"prefill","pairing":32})");
    CHECK((tiled.name == "tdpbf16ps" && tiled.flops(1) == 2.0 * 16 * 16 * 32 * tiled.sums));
    CHECK(&instruction_of("x86-64-v4-amx", R"({"pairing":1})") == &single);
    CHECK_THROWS_AS(instruction_of("x86-64-v4-bf16", R"({"pairing":32})"), std::runtime_error);
    if (!attune::runs("x86-64-v4-bf16")) CHECK_THROWS_AS(burst_gigaflops(paired, 1), std::runtime_error);
}
#endif

TEST_CASE("every instruction that this CPU has can be measured, by one thread and by several") {
    for (const char* level : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16", "x86-64-v4-amx", "aarch64"}) {
        if (!attune::runs(level)) continue;
        INFO(level);
        for (const int threads : {1, 3, 1}) CHECK(burst_gigaflops(instruction_of(level, "{}"), threads) > 0);
        if (std::string_view(level) == "x86-64-v4-bf16")
            CHECK(burst_gigaflops(instruction_of(level, R"({"pairing":2})"), 2) > 0);
        if (std::string_view(level) == "x86-64-v4-amx")
            CHECK(burst_gigaflops(instruction_of(level, R"({"pairing":32})"), 2) > 0);
    }
}

TEST_CASE("a share is of the best burst, whenever it was") {
    int asked = 0;
    peaks late(given_rates{{50, 60, 200, 40}, &asked});
    for (const double best : {50.0, 60.0, 200.0, 200.0}) CHECK(late.again(any(), 2) == best);
    CHECK_THAT(late.share(150, any(), 2), WithinRel(0.75));
    CHECK(asked == 4);
}

TEST_CASE("a rate above every burst asks for more of them, and is printed as it is where none reaches it") {
    int asked = 0;
    peaks slowed(given_rates{{50, 60, 200, 40}, &asked});
    slowed.again(any(), 2);
    CHECK_THAT(slowed.share(150, any(), 2), WithinRel(0.75));
    CHECK(asked == 3);

    asked = 0;
    peaks busy(given_rates{{100}, &asked});
    const double share = busy.share(121, any(), 2);
    CHECK_THAT(share, WithinRel(1.21));
    CHECK(asked > 1);
    CHECK(remark(share, any()) == "above the measured peak: the machine was busy");
    CHECK(remark(1, any()).empty());
}

TEST_CASE("peaks of other threads and other instructions are others") {
    peaks all([](const instruction& what, int threads) { return 10.0 * threads * what.lanes * what.pairs; });
    const double one = all.again(any(), 1);
    CHECK(all.again(any(), 2) == 2 * one);
    CHECK(all.share(one, any(), 1) == 1);
    CHECK(all.share(one, any(), 2) == 0.5);
#if defined(__x86_64__)
    const instruction& paired = instruction_of("x86-64-v4-bf16", R"({"pairing":2})");
    const instruction& single = instruction_of("x86-64-v4-bf16", R"({"pairing":1})");
    CHECK(all.again(paired, 2) == 2 * all.again(single, 2));
    CHECK(all.share(640, paired, 2) == 1);
    CHECK(all.share(320, single, 2) == 1);
    CHECK(remark(0.5, paired) == "peak of vdpbf16ps, softmax is f32");
    CHECK(remark(1.5, paired) == "peak of vdpbf16ps, softmax is f32; above the measured peak: the machine was busy");
#endif
}

TEST_CASE("bursts come after calls, and between long ones") {
    double now = 0;
    std::string order;
    const auto times = [&](double seconds, int repeats) {
        order.clear();
        const auto call = [&] { order += 'c', now += seconds; };
        const auto burst = [&] { order += 'b', now += 0.5; };  // of which no call's time holds anything
        return seconds_beside(burst, call, repeats, [&] { return now; });
    };
    CHECK(times(0.125, 3) == std::vector{0.125, 0.125, 0.125});
    CHECK(order == "cbcbcb");
    CHECK(times(0.0078125, 6).size() == 6);
    CHECK(order == "cccbcccb");
    times(0, 4);
    CHECK(order == "ccccb");
}
