// Attention states (out, lse) merged by a kernel: associative, commutative, neutral where empty, and the whole where
// the parts are its keys.
#include "formula_calls.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace attune;
using namespace attune::testing;
using support::shape;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

struct attention_state {
    std::vector<float> out, lse;
};

/// States as they come from anywhere: one in three is empty.
attention_state random_state(unsigned seed) {
    formula_call drawn("merged", usual_formula, seed);
    attention_state x{drawn.reals("out_a"), drawn.reals("lse_a")};
    for (std::size_t i = 0; i < x.out.size(); ++i)
        if (x.lse[i / 16] == -inf) x.out[i] = 0.0f;
    return x;
}

attention_state merged(const attention_state& a, const attention_state& b) {
    formula_call call("merged", usual_formula);
    call.put("out_a", a.out), call.put("lse_a", a.lse), call.put("out_b", b.out), call.put("lse_b", b.lse);
    call.run();
    return {call.reals("out"), call.reals("lse")};
}

double difference(const attention_state& a, const attention_state& b) {
    return std::max(largest_difference(a.out, b.out), largest_difference(a.lse, b.lse));
}

attention_state nothing() { return {std::vector<float>(2 * 4 * 77 * 16, 0.0f), std::vector<float>(2 * 4 * 77, -inf)}; }

/// Plain attention over keys [from, to).
attention_state over_keys(std::int64_t from, std::int64_t to) {
    formula_call call("plain", usual_formula);
    for (const char* name : {"k", "v"})
        call[name].view =
            tensor(call.reals(name).data() + from * 16, {2, 2, to - from, 16}, {2 * 301 * 16, 301 * 16, 16, 1});
    call.run();
    return {call.reals("out"), call.reals("lse")};
}

}  // namespace

TEST_CASE("merging does not depend on the order or the grouping") {
    const attention_state a = random_state(1), b = random_state(2), c = random_state(3), d = random_state(4);
    CHECK(difference(merged(a, b), merged(b, a)) < 2e-6);
    CHECK(difference(merged(merged(a, b), c), merged(a, merged(b, c))) < 4e-6);
    CHECK(difference(merged(merged(a, b), merged(c, d)), merged(merged(merged(d, c), b), a)) < 6e-6);
}

TEST_CASE("a state without keys is neutral, and two of them are one") {
    const attention_state a = random_state(5);
    CHECK(difference(merged(a, nothing()), a) < 1e-6);
    CHECK(difference(merged(nothing(), a), a) < 1e-6);
    const attention_state still = merged(nothing(), nothing());
    CHECK(difference(still, nothing()) == 0.0);
}

TEST_CASE("what lies in the output of an empty state does not matter") {
    const attention_state a = random_state(6);
    attention_state odd = nothing();
    std::ranges::fill(odd.out, std::nanf(""));
    CHECK(difference(merged(a, odd), a) < 1e-6);
    CHECK(difference(merged(odd, a), a) < 1e-6);
    CHECK(difference(merged(odd, odd), nothing()) == 0.0);
}

TEST_CASE("log-sum-exps far apart and far from zero merge without overflow") {
    attention_state a = random_state(7), b = random_state(8);
    for (std::size_t i = 0; i < a.lse.size(); ++i) a.lse[i] = i % 2 ? 1e4f : -1e4f, b.lse[i] = i % 4 < 2 ? 1e4f : -3e4f;
    const attention_state both = merged(a, b);
    double worst = 0;
    for (std::size_t row = 0; row < a.lse.size(); ++row) {
        const double x = a.lse[row], y = b.lse[row], top = std::max(x, y), p = std::exp(x - top), q = std::exp(y - top);
        worst = std::max(worst, std::abs(top + std::log(p + q) - both.lse[row]) / 1e4);
        for (std::size_t d = 0; d < 16; ++d)
            worst = std::max(worst, std::abs((a.out[row * 16 + d] * p + b.out[row * 16 + d] * q) / (p + q) -
                                             both.out[row * 16 + d]));
    }
    CHECK(worst < 2e-6);
}

TEST_CASE("parts of the keys merge to the whole, in any split and any order") {
    const attention_state whole = over_keys(0, 301);
    for (std::int64_t cut : {1, 64, 128, 129, 200, 300}) {
        INFO("cut at " << cut);
        CHECK(difference(merged(over_keys(0, cut), over_keys(cut, 301)), whole) < 5e-6);
    }
    const attention_state first = over_keys(0, 100), second = over_keys(100, 150), third = over_keys(150, 301);
    CHECK(difference(merged(merged(first, second), third), whole) < 5e-6);
    CHECK(difference(merged(third, merged(second, first)), whole) < 5e-6);
    CHECK(difference(merged(merged(third, over_keys(17, 17)), merged(first, second)), whole) < 5e-6);
}

TEST_CASE("attention appended to a state in one kernel is the same as merged by another") {
    const attention_state a = random_state(9);
    formula_call appended("appended", usual_formula), plain("plain", usual_formula);
    plain.take_inputs(appended);
    appended.put("out_a", a.out), appended.put("lse_a", a.lse);
    appended.run(), plain.run();
    CHECK(difference({appended.reals("out"), appended.reals("lse")},
                     merged(a, {plain.reals("out"), plain.reals("lse")})) < 5e-6);
}
