// Sinks, unnormalized weights, factors after the softmax, arithmetic after the sum.
#include "formula_calls.hpp"
#include "formulas.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace attune;
using namespace attune::testing;
using support::shape;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

/// One key more, at the end of every head: a row of zeros in k and v.
std::vector<float> with_a_zero_key(const std::vector<float>& from, std::size_t panels) {
    const std::size_t panel = from.size() / panels;
    std::vector<float> to;
    for (std::size_t p = 0; p < panels; ++p) {
        to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(p * panel),
                  from.begin() + static_cast<std::ptrdiff_t>((p + 1) * panel));
        to.insert(to.end(), 16, 0.0f);
    }
    return to;
}

/// The keys and values of a call in another order.
void permute_keys(formula_call& call, unsigned seed) {
    std::vector<std::size_t> order(301);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, std::mt19937(seed));
    for (const char* name : {"k", "v"}) {
        auto& values = call.reals(name);
        const auto before = values;
        for (std::size_t panel = 0; panel < 4; ++panel)
            for (std::size_t key = 0; key < 301; ++key)
                std::copy_n(before.begin() + static_cast<std::ptrdiff_t>((panel * 301 + order[key]) * 16), 16,
                            values.begin() + static_cast<std::ptrdiff_t>((panel * 301 + key) * 16));
    }
}

}  // namespace

TEST_CASE("statistics do not know the order of the keys") {
    for (const char* name : {"plain", "plus_one", "normalised_after", "normed", "appended"})
        for (unsigned seed : {1u, 2u, 3u}) {
            formula_call call(name, usual_formula);
            const auto before = call.run().reals("out");
            permute_keys(call, seed);
            INFO(name);
            CHECK(largest_difference(before, call.run().reals("out")) < 5e-6);
        }
}

TEST_CASE("a sink is one more key whose value is zero") {
    formula_call sunk("sunk", usual_formula, 21, {{"w", 1 << 20}});
    shape longer = usual_formula;
    longer.keys += 1;
    formula_call biased("biased", longer);
    biased.put("q", sunk.reals("q"));
    for (const char* name : {"k", "v"}) biased.put(name, with_a_zero_key(sunk.reals(name), 4));
    // The sunk variant sees, from the bottom right, keys up to the diagonal; only its last query sees all, and is
    // compared.
    auto& bias = biased.reals("by_key_bias");
    std::ranges::fill(bias, 0.0f);
    for (std::size_t head = 0; head < 4; ++head) bias[head * 302 + 301] = sunk.reals("sinks")[head];
    sunk.run(), biased.run();
    double worst = 0;
    for (std::size_t head = 0; head < 8; ++head) {
        const std::size_t row = head * 77 + 76;
        worst = std::max(worst, std::abs(static_cast<double>(sunk.reals("lse")[row]) - biased.reals("lse")[row]));
        for (std::size_t d = 0; d < 16; ++d)
            worst = std::max(worst, std::abs(static_cast<double>(sunk.reals("out")[row * 16 + d]) -
                                             biased.reals("out")[row * 16 + d]));
    }
    CHECK(worst < 3e-6);
}

TEST_CASE("softmax plus one is a sink of zero, and a key of zeros") {
    using namespace attune::dsl;
    static constexpr auto by_sink =
        outputs(out = softmax(formulas::scores, 0.0) * v, lse = log_sum_exp(formulas::scores, 0.0));
    STATIC_CHECK(fingerprint<by_sink> == fingerprint<formulas::plus_one>);
    formula_call plus_one("plus_one", usual_formula);
    shape longer = usual_formula;
    longer.keys += 1;
    formula_call plain("plain", longer);
    plain.put("q", plus_one.reals("q"));
    for (const char* name : {"k", "v"}) plain.put(name, with_a_zero_key(plus_one.reals(name), 4));
    plus_one.run(), plain.run();
    CHECK(largest_difference(plus_one.reals("out"), plain.reals("out")) < 2e-6);
    CHECK(largest_difference(plus_one.reals("lse"), plain.reals("lse")) < 2e-6);
}

TEST_CASE("a sink of -infinity is none; a sink alone makes rows of zero") {
    formula_call sunk("sunk", usual_formula), every("every", usual_formula);
    every.take_inputs(sunk);
    std::ranges::fill(sunk.reals("sinks"), -inf);
    sunk.run(), every.run();
    for (const char* name : {"out", "lse", "weights"})
        CHECK(largest_difference(sunk.reals(name), every.reals(name)) < 1e-6);
    formula_call tall("sunk", {.batches = 1,
                               .heads = 2,
                               .key_heads = 2,
                               .queries = 90,
                               .keys = 30,
                               .depth = 16,
                               .value_depth = 16});  // 60 rows see nothing
    tall.run();
    bool zero = true, sinks = true;
    for (std::size_t head = 0; head < 2; ++head)
        for (std::size_t q = 0; q < 60; ++q) {
            sinks = sinks && std::abs(tall.reals("lse")[head * 90 + q] - tall.reals("sinks")[head]) < 1e-6f;
            for (std::size_t d = 0; d < 16; ++d) zero = zero && tall.reals("out")[(head * 90 + q) * 16 + d] == 0.0f;
        }
    CHECK(zero);
    CHECK(sinks);
}

TEST_CASE("unnormalized attention is linear in its keys: parts add up to the whole, in any split") {
    shape wide = usual_formula;
    wide.queries = 301;  // its window ends at the diagonal, which both alignments share
    const std::map<std::string, double> everything{{"w", 1 << 20}};
    formula_call whole("sigmoid_attention", wide, 21, everything);
    whole.run();
    for (std::size_t cut : {1, 128, 200, 300}) {
        std::vector<float> sum(whole.reals("out").size(), 0.0f);
        for (const bool first : {true, false}) {
            formula_call part("sigmoid_attention", wide, 21, everything);
            auto& values = part.reals("v");  // those of the other part weigh nothing
            for (std::size_t i = 0; i < values.size(); ++i)
                if ((i / 16 % 301 < cut) != first) values[i] = 0.0f;
            part.run();
            for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part.reals("out")[i];
        }
        INFO("cut at " << cut);
        CHECK(largest_difference(sum, whole.reals("out")) < 3e-5);
    }
}

TEST_CASE("sigmoid attention: the keys twice are twice the output, and softmax's is unchanged") {
    const shape once{
        .batches = 1, .heads = 2, .key_heads = 1, .queries = 1, .keys = 100, .depth = 16, .value_depth = 16};
    shape twice = once;
    twice.keys = 200;
    for (const char* name : {"sigmoid_attention", "plain"}) {
        formula_call one(name, once, 21, {{"w", 1 << 20}}), two(name, twice, 21, {{"w", 1 << 20}});
        two.put("q", one.reals("q"));
        for (const char* input : {"k", "v"}) {
            auto& to = two.reals(input);
            const auto& from = one.reals(input);
            for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[i % from.size()];
        }
        one.run(), two.run();
        auto expected = one.reals("out");
        for (float& x : expected) x *= std::string(name) == "plain" ? 1.0f : 2.0f;
        INFO(name);
        CHECK(largest_difference(expected, two.reals("out")) < 2e-5);
    }
}

TEST_CASE("a dropout mask of ones is nothing, one of zeros everything; the log-sum-exp does not notice") {
    formula_call kept("kept", usual_formula), every("every", usual_formula);
    every.take_inputs(kept);
    every.run();
    std::ranges::fill(kept.reals("keep"), 1.0f);
    kept.run();
    CHECK(largest_difference(kept.reals("out"), every.reals("out")) < 1e-6);
    CHECK(largest_difference(kept.reals("lse"), every.reals("lse")) < 1e-6);
    std::ranges::fill(kept.reals("keep"), 0.0f);
    kept.run();
    CHECK(std::ranges::all_of(kept.reals("out"), [](float x) { return x == 0.0f; }));
    CHECK(largest_difference(kept.reals("lse"), every.reals("lse")) < 1e-6);
}

TEST_CASE("normalising after the sum is softmax, and a weight's factor comes out of it") {
    formula_call after("normalised_after", usual_formula), plain("plain", usual_formula);
    plain.take_inputs(after);
    after.run(), plain.run();
    CHECK(largest_difference(after.reals("out"), plain.reals("out")) < 5e-6);
    formula_call kept("kept", usual_formula), every("every", usual_formula);
    every.take_inputs(kept);
    std::ranges::fill(kept.reals("keep"), 4.0f);
    kept.run(), every.run();
    for (float& x : every.reals("out")) x *= 4.0f;
    CHECK(largest_difference(kept.reals("out"), every.reals("out")) < 1e-5);
}

TEST_CASE("rows and outputs are numbers: gates, other bases, differences of rows; -infinity stays") {
    const shape tall{
        .batches = 2, .heads = 4, .key_heads = 2, .queries = 120, .keys = 77, .depth = 16, .value_depth = 16};
    formula_call gated("gated", tall), every("every", tall);
    every.take_inputs(gated);
    gated.run(), every.run();
    double worst = 0;
    bool empty = true;
    for (std::size_t i = 0; i < every.reals("out").size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(every.reals("out")[i]) * gated.reals("gate")[i] + 1.0 -
                                         gated.reals("out")[i]));
    for (std::size_t row = 0; row < every.reals("lse").size(); ++row) {
        const double natural = every.reals("lse")[row], top = every.reals("top")[row];
        if (natural == -inf)
            empty = empty && gated.reals("lse")[row] == -inf && gated.reals("shift")[row] == -inf;
        else
            worst = std::max({worst, std::abs(natural / std::log(2.0) - gated.reals("lse")[row]),
                              std::abs(natural - top - gated.reals("shift")[row])});
    }
    CHECK(worst < 1e-5);
    CHECK(empty);
}
