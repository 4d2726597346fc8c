// The tuner's candidates and decisions, without compiling or timing anything.
#include "plans/kernel_plan.hpp"
#include "schedules/cost_model.hpp"
#include "schedules/search_space.hpp"
#include "tuned_variants.hpp"
#include "tuner/log.hpp"
#include "tuner/search.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

using namespace attune;
using namespace attune::generators;
using namespace attune::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {
tuned_kernel tuned(const variant& of, const std::string& depths, const std::string& level) {
    return {kernel_of(of, depths, level), shape_bucket::prefill};
}

/// Rounds of a challenger that takes `ratio` times as long, each time off by up to `noise`.
std::vector<round_times> rounds(double ratio, double noise, std::size_t count, unsigned seed, double drift = 0) {
    std::mt19937 random(seed);
    const auto off = [&] { return 1 + noise * (static_cast<double>(random() % 2001) / 1000 - 1); };
    std::vector<round_times> all;
    for (std::size_t i = 0; i < count; ++i) {
        const double machine = 1e-3 * (1 + drift * static_cast<double>(i));
        all.push_back({machine * off(), machine * ratio * off()});
    }
    return all;
}
}  // namespace

TEST_CASE("a space holds at least 300 different valid candidates, the default first, at every level that is fast") {
    for (const char* level : {"x86-64-v3", "x86-64-v4", "x86-64-v4-bf16"})
        for (const char* depths : {"32", "64", "80", "128", "256", "128x64"})
            for (const variant& of : {full, causal}) {
                const tuned_kernel k = tuned(of, depths, level);
                const std::vector<schedule> space = candidates(k);
                CAPTURE(level, depths, space.size());
                CHECK(space.size() >= 300);
                CHECK(space.front() == k.kernel.request.schedule);
                for (std::size_t i = 0; i < space.size(); ++i) {
                    CHECK_NOTHROW(check(space[i], k.kernel.request.depths));
                    CHECK(fits_registers(std::get<cpu_prefill>(space[i]), *k.kernel.request.target));
                    CHECK(plain_scratch_bytes(space[i], k.kernel.request.depths) <=
                          machine_of(*k.kernel.request.target).second_level_bytes);
                    CHECK(std::find(space.begin() + static_cast<std::ptrdiff_t>(i) + 1, space.end(), space[i]) ==
                          space.end());
                }
            }
}

TEST_CASE("a space for few queries holds at least 300 candidates too, the default first") {
    for (const char* level : {"x86-64-v3", "x86-64-v4"})
        for (const char* depths : {"64", "128"}) {
            const tuned_kernel k{kernel_of(causal, depths, level, "f32", shape_class::decode), shape_bucket::decode};
            const std::vector<schedule> space = candidates(k);
            CAPTURE(level, depths, space.size());
            CHECK(space.size() >= 300);
            CHECK(space.front() == k.kernel.request.schedule);
            for (const schedule& s : space) {
                CHECK_NOTHROW(check(s, k.kernel.request.depths));
                CHECK(fits_registers(std::get<cpu_decode>(s), *k.kernel.request.target));
                CHECK(std::count(space.begin(), space.end(), s) == 1);
            }
        }
}

TEST_CASE("a space for gradients holds at least 200 candidates, the default first, and begins with its neighbours") {
    for (const char* level : {"x86-64-v3", "x86-64-v4"})
        for (const char* depths : {"64", "128", "80x48"}) {
            const tuned_kernel k{kernel_of(backward_of_causal, depths, level), shape_bucket::gradient};
            const std::vector<schedule> space = candidates(k);
            CAPTURE(level, depths, space.size());
            CHECK(space.size() >= 200);
            CHECK(space.front() == k.kernel.request.schedule);
            for (const schedule& s : space) {
                CHECK_NOTHROW(check(s, k.kernel.request.depths));
                CHECK(fits_registers(std::get<cpu_gradient>(s), *k.kernel.request.target));
                CHECK(std::ranges::count(space, s) == 1);
            }
            const auto differences = costs_of(k, space);
            CHECK(differences.front() == 0);
            CHECK(std::ranges::count(differences, 0) == 1);
            const search_state state(space, differences, 1, {}, false);
            const auto first = std::ranges::find(space, state.order().front()) - space.begin();
            CHECK(differences[static_cast<std::size_t>(first)] == 1);
        }
    const tuned_kernel k{kernel_of(backward_of_full, "64", "x86-64-v4"), shape_bucket::gradient};
    auto s = std::get<cpu_gradient>(k.kernel.request.schedule);
    CHECK(fits_registers(s, *k.kernel.request.target));
    s.sum_rows = 8;  // 8 x 4 sums beside operands, of 32 registers
    CHECK_FALSE(fits_registers(s, *k.kernel.request.target));
}

TEST_CASE("register tiles that do not fit the registers are no candidates") {
    const tuned_kernel k = tuned(full, "64", "x86-64-v3");
    auto s = std::get<cpu_prefill>(k.kernel.request.schedule);
    CHECK(fits_registers(s, *k.kernel.request.target));
    s.key_tile = 5;  // 3 x 5 sums beside operands, of 16 registers
    CHECK_FALSE(fits_registers(s, *k.kernel.request.target));
}

TEST_CASE("estimates are finite and positive, grow with the call, and see a mask") {
    const tuned_kernel open = tuned(full, "64", "x86-64-v3"), masked = tuned(causal, "64", "x86-64-v3");
    const double once = estimated_cycles(open.kernel.request, masking::none, {1, 1, 1, 512, 512}),
                 twice = estimated_cycles(open.kernel.request, masking::none, {1, 2, 2, 512, 512});
    CHECK(once > 0);
    CHECK(twice == 2 * once);
    CHECK(estimated_cycles(open.kernel.request, masking::none, {1, 1, 1, 512, 1024}) > 1.8 * once);
    CHECK(estimated_cycles(masked.kernel.request, masking::some, {1, 1, 1, 2048, 2048}) <
          0.7 * estimated_cycles(masked.kernel.request, masking::none, {1, 1, 1, 2048, 2048}));
}

TEST_CASE("an interval has the confidence that is stated, and none where there are too few rounds") {
    CHECK(compared(rounds(0.9, 0, 5, 1), 0.95).confidence == 0);
    const comparison nine = compared(rounds(0.9, 0.02, 9, 1), 0.95);
    CHECK(nine.confidence >= 0.95);
    CHECK(nine.low <= nine.ratio);
    CHECK(nine.ratio <= nine.high);
    // Of 15 rounds the fourth from either end: 1 - 2 * (1 + 15 + 105 + 455) / 2^15.
    CHECK(compared(rounds(0.9, 0.02, 15, 1), 0.95).confidence == 1 - 2 * 576.0 / 32768);
    int held = 0;
    for (unsigned seed = 0; seed < 1000; ++seed) {
        const comparison c = compared(rounds(1, 0.05, 9, seed), 0.95);
        held += c.low <= 1 && 1 <= c.high;
    }
    CHECK(held >= 935);  // 960 are expected, with a deviation of 6
}

TEST_CASE("a candidate wins when the difference is above the noise, and only then") {
    const duel_rules rules;
    const auto duel = [&](double ratio, double noise, unsigned seed, double drift = 0) {
        const auto all = rounds(ratio, noise, rules.rounds, seed, drift);
        for (std::size_t n = 0; n <= all.size(); ++n)
            if (const standing is = judged({all.data(), n}, rules); is != standing::undecided) return is;
        return standing::undecided;
    };
    int false_wins = 0, missed = 0;
    for (unsigned seed = 0; seed < 300; ++seed) {
        false_wins += duel(1, 0.05, seed) == standing::faster;
        missed += duel(0.9, 0.02, seed) != standing::faster;
        CHECK(duel(0.97, 0, seed, 0.2) ==
              standing::faster);  // the machine grows slower all the while: rounds are compared each within itself
        CHECK(duel(1.5, 0.1, seed) == standing::slower);
    }
    CHECK(false_wins <= 20);  // of 300: each look has 2.5 %, and looks are few
    CHECK(missed == 0);
    CHECK(judged(rounds(1.5, 0, 3, 1), rules) == standing::slower);  // hopeless: not timed any further
    CHECK(judged(rounds(1.02, 0, 3, 1), rules) == standing::undecided);
}

TEST_CASE("rank correlation") {
    const double rising[] = {1, 2, 3, 4}, same_order[] = {10, 20, 40, 80}, falling[] = {4, 3, 2, 1},
                 mixed[] = {2, 1, 4, 3}, equal[] = {1, 1, 1, 1};
    CHECK(rank_correlation(rising, same_order) == 1);
    CHECK(rank_correlation(rising, falling) == -1);
    CHECK(std::abs(rank_correlation(rising, mixed) - 0.6) < 1e-12);
    CHECK(rank_correlation(rising, equal) == 0);
}

TEST_CASE("the order of trying is fixed by the seed, holds every candidate once and begins with the model's first") {
    const tuned_kernel k = tuned(causal, "64", "x86-64-v3");
    const auto space = candidates(k);
    const auto cost = costs_of(k, space);
    const search_state a(space, cost, 1, {}, false), b(space, cost, 1, {}, false), c(space, cost, 2, {}, false);
    CHECK(a.order() == b.order());
    CHECK(a.order() != c.order());
    CHECK(a.order().size() == space.size() - 1);
    for (const schedule& s : a.order()) CHECK(std::count(a.order().begin(), a.order().end(), s) == 1);
    const auto first = std::min_element(cost.begin() + 1, cost.end()) - cost.begin();
    CHECK(a.order().front() == space[static_cast<std::size_t>(first)]);
}

TEST_CASE("a search decides by its log as it did by its times, whatever the last line was when it was killed") {
    const tuned_kernel k = tuned(causal, "64", "x86-64-v3");
    const auto space = candidates(k);
    const auto cost = costs_of(k, space);
    search_state state(space, cost, 3, {}, false);
    const temporary_path file("tune");
    {
        tune_log log(file.path, false);
        log.begin("a search", {{"class", key_of(k.kernel, k.bucket).text()}, {"seed", 3}});
        for (unsigned i = 0; i < 40; ++i) {
            tried_candidate tried{state.order()[i], rounds(i == 7 ? 0.8 : 1.1 + 0.01 * i, 0.013, 9, i),
                                  i == 5 ? "a sentence" : "", 1.25, 1.5 * i};
            state.record(tried);
            log.add("a search", tried);
        }
    }
    CHECK(state.incumbent() == state.order()[7]);
    const auto size = std::filesystem::file_size(file.path);
    for (const std::uintmax_t cut : {std::uintmax_t{0}, std::uintmax_t{1}, std::uintmax_t{100}}) {
        std::filesystem::resize_file(file.path, size - cut);
        const auto searches = tune_log::read(file.path);
        const recorded_search& record = searches.at("a search");
        REQUIRE(record.tried.size() == (cut == 0 ? 40u : 39u));  // at most one is lost
        search_state again(space, cost, 3, {}, false);
        for (const tried_candidate& t : record.tried) again.record(t);
        CHECK(again.incumbent() == state.incumbent());
        CHECK(again.incumbent_over_default() == state.incumbent_over_default());
        CHECK(again.finalists() == state.finalists());
    }
    {  // what is there is kept, a line cut short is not, and new ones follow
        tune_log log(file.path, true);
        CHECK(log.searches().at("a search").tried.size() == 39);
        log.end("a search", {{space[0], space[1]}, {{1, 2}, {3, 4}}});
    }
    CHECK(tune_log::read(file.path).at("a search").last->seconds == std::vector<std::vector<double>>{{1, 2}, {3, 4}});
    std::ofstream(file.path, std::ios::app) << "nonsense\n";
    CHECK_THROWS_MATCHES(tune_log::read(file.path), std::runtime_error,
                         MessageMatches(ContainsSubstring("line 42: expected a line of a search's log")));
}

TEST_CASE("what a search says of its gain meanwhile is not the product of lucky comparisons") {
    const tuned_kernel k = tuned(causal, "64", "x86-64-v3");
    const auto space = candidates(k);
    search_state state(space, costs_of(k, space), 3, {}, false);
    double truth = 1;
    for (unsigned i = 0; i < 6; ++i) {
        REQUIRE(state.record({state.order()[i], rounds(0.9, 0.03, 9, i), {}, 1, 1}) == standing::faster);
        truth *= 0.9;
        CHECK(state.cautious_over_default() >= truth);
        CHECK(state.cautious_over_default() >= state.incumbent_over_default());
    }
    CHECK(state.cautious_over_default() < 0.9);
}

TEST_CASE("the default stays unless the last rounds say that another is faster") {
    const tuned_kernel k = tuned(causal, "64", "x86-64-v3");
    const auto space = candidates(k);
    const search_state state(space, costs_of(k, space), 1, {}, false);
    final_rounds last{{space[0], space[1], space[2]}, {}};
    for (std::size_t i = 0; i < search_state::final_round_count; ++i)
        last.seconds.push_back({1.0, i % 2 ? 0.99 : 1.02, 1.05});
    CHECK(state.decide(last).schedule == space[0]);
    for (auto& round : last.seconds) round[2] = 0.9 + 0.001 * round[1];
    const search_choice choice = state.decide(last);
    CHECK(choice.schedule == space[2]);
    CHECK(choice.over_default.high < 1);
}

TEST_CASE(
    "finalists are timed more often where the machine is noisy, so that what is a few percent faster is still seen") {
    const tuned_kernel k = tuned(causal, "64", "x86-64-v3");
    const auto space = candidates(k);
    const auto rounds_after = [&](double noise) {
        search_state state(space, costs_of(k, space), 1, {}, false);
        for (unsigned i = 0; i < 9; ++i) state.record({state.order()[i], rounds(1.2, noise, 9, i), "", 1, 1});
        return state.final_rounds_needed();
    };
    CHECK(rounds_after(0.005) == 15);
    CHECK(rounds_after(0.1) == 45);
    const search_state state(space, costs_of(k, space), 1, {}, false);
    const auto is_seen = [&](std::size_t count, unsigned seed) {
        final_rounds last{{space[0], space[1]}, {}};
        for (const round_times& r : rounds(0.95, 0.08, count, seed))
            last.seconds.push_back({r.incumbent, r.challenger});
        return state.decide(last).schedule == space[1];
    };
    int seen[2] = {};
    for (unsigned seed = 0; seed < 100; ++seed) seen[0] += is_seen(15, seed), seen[1] += is_seen(45, seed);
    CHECK(seen[0] < seen[1]);
    CHECK(seen[1] >= 90);
}

TEST_CASE("short calls have a schedule of their own up to the length by which it gains most") {
    const auto at = [](std::int64_t queries, double ratio) {
        return length_rounds{queries, rounds(ratio, 0.01, 9, static_cast<unsigned>(queries))};
    };
    CHECK(longest_served({}) == 0);
    CHECK(longest_served({at(16, 1), at(32, 1)}) == 0);
    CHECK(longest_served({at(16, 0.8), at(32, 0.9), at(64, 1), at(128, 1.2)}) == 32);
    CHECK(longest_served({at(16, 1), at(32, 0.9)}) == 32);
    CHECK(longest_served({at(16, 1.2), at(32, 0.5), at(64, 0.5), at(128, 1.1)}) ==
          64);  // the first length is a small price
    CHECK(longest_served({at(16, 0.9), at(32, 2.0), at(64, 0.8)}) ==
          16);  // what lies beyond 32 does not make up for it
    CHECK(longest_served({at(16, 1.2), at(32, 0.9)}) == 0);
}
