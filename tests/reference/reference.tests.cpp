#include "ir_by_hand.hpp"

#include <attune/reference.hpp>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <limits>
#include <random>

using namespace attune;
using namespace attune::reference;
using attune::testing::ir_builder;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr float infinity = std::numeric_limits<float>::infinity();

/// Scores are the keys themselves: q is 1, depth 1; v is whatever the test says.
struct line {
    std::vector<float> q, k, v;
    std::int64_t queries, keys;
    line(std::int64_t lq, std::vector<float> keys_, std::vector<float> values)
        : q(static_cast<std::size_t>(lq), 1.0f),
          k(std::move(keys_)),
          v(std::move(values)),
          queries(lq),
          keys(static_cast<std::int64_t>(k.size())) {}
    std::vector<argument> arguments() const {
        return {{"q", tensor(q.data(), {1, 1, queries, 1})},
                {"k", tensor(k.data(), {1, 1, keys, 1})},
                {"v", tensor(v.data(), {1, 1, keys, 1})}};
    }
};

/// softmax(f(q * t(k))) * v and its log-sum-exp
template <class F> ir_builder attention(F f) {
    ir_builder l;
    const auto s = f(l, l.scores());
    l.output("out", l.attend(s));
    l.output("lse", l.add(operation::log_sum_exp, kind::row, {s}));
    return l;
}
ir_builder plain() {
    return attention([](ir_builder&, auto s) { return s; });
}
ir_builder causal() {
    return attention([](ir_builder& l, auto s) {
        return l.add(operation::mask, kind::scores,
                     {s, l.add(operation::greater_equal, kind::condition,
                               {l.index(operation::q_idx), l.index(operation::kv_idx)})});
    });
}

}  // namespace

TEST_CASE("one key: its value, and its score is the log-sum-exp") {
    const line x(2, {3.0f}, {7.0f});
    const auto r = evaluate(plain().view(), x.arguments());
    CHECK(r["out"].shape == std::vector<std::int64_t>{1, 1, 2, 1});
    CHECK(r["out"].values == std::vector<double>{7, 7});
    CHECK(r["lse"].values == std::vector<double>{3, 3});
}

TEST_CASE("two keys by hand") {
    const line x(1, {0.0f, std::log(3.0f)}, {4.0f, 8.0f});
    const auto r = evaluate(plain().view(), x.arguments());
    CHECK(r["out"].values[0] == Catch::Approx(7.0).epsilon(1e-7));
    CHECK(r["lse"].values[0] == Catch::Approx(std::log(4.0)).epsilon(1e-7));
}

TEST_CASE("rows without a visible key are 0, their log-sum-exp -infinity") {
    const auto never = attention([](ir_builder& l, auto s) {
        return l.add(
            operation::mask, kind::scores,
            {s, l.add(operation::less, kind::condition, {l.index(operation::kv_idx), l.index(operation::q_idx)})});
    });
    const line x(2, {1.0f, 2.0f}, {5.0f, 6.0f});  // query 0 sees none, query 1 key 0
    const auto r = evaluate(never.view(), x.arguments(), {.keep_visible = true});
    CHECK(r["out"].values == std::vector<double>{0, 5});
    CHECK(r["lse"].values == std::vector<double>{-inf, 1});
    CHECK(r.visible == std::vector<std::uint8_t>{0, 0, 1, 0});
}

TEST_CASE("no keys at all") {
    const line x(2, {}, {});
    const auto r = evaluate(plain().view(), x.arguments());
    CHECK(r["out"].values == std::vector<double>{0, 0});
    CHECK(r["lse"].values == std::vector<double>{-inf, -inf});
}

TEST_CASE("-infinity masks, whether written or found in a tensor; finite scores never do") {
    const line x(1, {1.0f, 2.0f, 3.0f, 4.0f}, {1.0f, 2.0f, 4.0f, 8.0f});
    const auto written = attention([](ir_builder& l, auto s) {
        const auto odd = l.add(
            operation::equal, kind::condition,
            {l.add(operation::remainder, kind::integer, {l.index(operation::kv_idx), l.integer(2)}), l.integer(1)});
        return l.add(operation::where, kind::scores, {odd, s, l.real(-inf)});
    });
    CHECK(evaluate(written.view(), x.arguments(), {.keep_visible = true}).visible ==
          std::vector<std::uint8_t>{0, 1, 0, 1});

    const auto biased = attention([](ir_builder& l, auto s) {
        const auto bias = l.input("bias", element_type::f32, {axis_kind::key});
        return l.add(operation::add, kind::scores,
                     {s, l.add(operation::load, kind::real, {bias, l.index(operation::kv_idx)})});
    });
    const std::vector<float> bias{-infinity, 0.0f, -infinity, -1e20f};
    auto arguments = x.arguments();
    arguments.push_back({"bias", tensor(bias.data(), {4})});
    const auto r = evaluate(biased.view(), arguments, {.keep_visible = true});
    CHECK(r.visible == std::vector<std::uint8_t>{0, 1, 0, 1});
    CHECK(r["out"].values == std::vector<double>{2});  // -1e20 is visible, its weight nothing beside a score of 2
}

TEST_CASE("a row of -1e20 is the mean of all values") {
    const auto energies = attention([](ir_builder& l, auto s) {
        const auto visible =
            l.add(operation::less, kind::condition, {l.index(operation::kv_idx), l.index(operation::q_idx)});
        return l.add(operation::where, kind::scores, {visible, s, l.real(-1e20)});
    });
    const line x(2, {1.0f, 2.0f, 3.0f}, {3.0f, 6.0f, 9.0f});
    const auto r = evaluate(energies.view(), x.arguments());
    CHECK(r["out"].values == std::vector<double>{6, 3});
    CHECK(r["lse"].values[0] == Catch::Approx(-1e20));
}

TEST_CASE("kv_lengths ends the key axis: what lies beyond is not seen") {
    const float nan = std::nanf("");
    const std::vector<float> q(3, 1.0f), k{1, nan, 2, 3, nan, infinity}, v{5, nan, 6, 6, nan, nan};
    const std::vector<std::int32_t> lengths{1, 2, 0};
    const std::vector<argument> arguments{{"q", tensor(q.data(), {3, 1, 1, 1})},
                                          {"k", tensor(k.data(), {3, 1, 2, 1})},
                                          {"v", tensor(v.data(), {3, 1, 2, 1})},
                                          {"kv_lengths", tensor(lengths.data(), {3})}};
    const auto r = evaluate(plain().view(), arguments, {.keep_visible = true});
    CHECK(r["out"].values == std::vector<double>{5, 6, 0});
    CHECK(r["lse"].values[2] == -inf);
    CHECK(r.visible == std::vector<std::uint8_t>{1, 0, 1, 1, 0, 0});
}

TEST_CASE("query head h reads key head h / (heads / key heads)") {
    const std::vector<float> q(6, 1.0f), k(3, 0.0f), v{10, 20, 30};
    const std::vector<argument> arguments{{"q", tensor(q.data(), {1, 6, 1, 1})},
                                          {"k", tensor(k.data(), {1, 3, 1, 1})},
                                          {"v", tensor(v.data(), {1, 3, 1, 1})}};
    CHECK(evaluate(plain().view(), arguments)["out"].values == std::vector<double>{10, 10, 20, 20, 30, 30});
}

TEST_CASE("axes of extent 1 broadcast, indices are clamped to their axis") {
    const auto table = attention([](ir_builder& l, auto s) {
        const auto difference =
            l.add(operation::subtract, kind::integer, {l.index(operation::q_idx), l.index(operation::kv_idx)});
        const auto bias = l.input("table", element_type::f32, {axis_kind::head, axis_kind::free});
        return l.add(operation::add, kind::scores,
                     {s, l.add(operation::load, kind::real, {bias, l.index(operation::h), difference})});
    });
    const std::vector<float> q(4, 0.0f), k(2, 0.0f), v{1, 0}, values{0.0f, std::log(3.0f)};
    const std::vector<argument> arguments{{"q", tensor(q.data(), {1, 2, 2, 1})},
                                          {"k", tensor(k.data(), {1, 1, 2, 1})},
                                          {"v", tensor(v.data(), {1, 1, 2, 1})},
                                          {"table", tensor(values.data(), {1, 2})}};
    const auto r = evaluate(table.view(), arguments);  // query 0: differences 0, -1 -> 0; query 1: 1, 0
    CHECK(r["out"].values[0] == 0.5);
    CHECK(r["out"].values[1] == Catch::Approx(0.75).epsilon(1e-7));
    CHECK(r["out"].values[2] == 0.5);
}

TEST_CASE("strides, element types and scalars") {
    const auto scaled = attention([](ir_builder& l, auto s) {
        return l.add(operation::multiply, kind::scores, {s, l.scalar("scale", element_type::f32)});
    });
    const std::vector<std::uint16_t> q{0x3f80, 0xdead, 0x4000};  // bf16: 1, 2 two apart
    const std::vector<std::uint16_t> k{0x3c00, 0xc400};          // f16: 1, -4
    const std::vector<float> v{1, -1, 3, -1};                    // every second
    const std::vector<std::int64_t> shape{1, 1, 2, 1}, two_apart{0, 0, 2, 1};
    const std::vector<argument> arguments{
        {"q", tensor(element_type::bf16, static_cast<const void*>(q.data()), shape, two_apart)},
        {"k", tensor(element_type::f16, static_cast<const void*>(k.data()), shape)},
        {"v", tensor(v.data(), shape, two_apart)},
        {"scale", 0.5}};
    const auto r = evaluate(scaled.view(), arguments);
    const auto mean = [](double a, double b) { return (std::exp(a) + 3 * std::exp(b)) / (std::exp(a) + std::exp(b)); };
    CHECK(r["out"].values[0] == Catch::Approx(mean(0.5, -2)).epsilon(1e-14));
    CHECK(r["out"].values[1] == Catch::Approx(mean(1, -4)).epsilon(1e-14));
}

TEST_CASE("chosen rows are those of the whole") {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::vector<float> q(2 * 2 * 9 * 4), k(2 * 1 * 9 * 4), v(2 * 1 * 9 * 3);
    for (auto* values : {&q, &k, &v})
        for (float& x : *values) x = normal(random);
    const std::vector<argument> arguments{{"q", tensor(q.data(), {2, 2, 9, 4})},
                                          {"k", tensor(k.data(), {2, 1, 9, 4})},
                                          {"v", tensor(v.data(), {2, 1, 9, 3})}};
    const auto all = evaluate(causal().view(), arguments),
               some = evaluate(causal().view(), arguments, {.rows = {8, 3}});
    CHECK(some["out"].shape == std::vector<std::int64_t>{2, 2, 2, 3});
    std::vector<float> as_floats(all["out"].values.begin(), all["out"].values.end());
    const tensor whole(as_floats.data(), {2, 2, 9, 3});
    CHECK(largest_error(whole, some["out"], some.rows) < 1e-6);
    CHECK(largest_error(whole, all["out"], all.rows) < 1e-6);
    as_floats[(8 * 3) + 1] += 1.0f;
    CHECK(largest_error(whole, some["out"], some.rows) > 0.9);
    as_floats[(8 * 3) + 1] = std::nanf("");
    CHECK(largest_error(whole, some["out"], some.rows) == inf);
}

TEST_CASE("infinities must agree exactly") {
    const array expected{"lse", {1, 1, 2}, {-inf, 1.0}};
    const std::vector<std::int64_t> rows{0, 1};
    const auto error = [&](float first) {
        const std::vector<float> got{first, 1.0f};
        return largest_error(tensor(got.data(), {1, 1, 2}), expected, rows);
    };
    CHECK(error(-infinity) == 0.0);
    CHECK(error(std::numeric_limits<float>::lowest()) == inf);
    CHECK(error(infinity) == inf);
    CHECK(error(std::nanf("")) == inf);
    const std::vector<float> shorter{1.0f};
    CHECK_THROWS_AS(largest_error(tensor(shorter.data(), {1, 1, 1}), expected, rows), std::invalid_argument);
}

TEST_CASE("what the graph reads must be given") {
    const line x(1, {1.0f}, {1.0f});
    auto arguments = x.arguments();
    arguments.pop_back();
    CHECK_THROWS_MATCHES(evaluate(plain().view(), arguments), std::invalid_argument,
                         MessageMatches(ContainsSubstring("`v`")));
    arguments.push_back({"v", 3.0});
    CHECK_THROWS_MATCHES(evaluate(plain().view(), arguments), std::invalid_argument,
                         MessageMatches(ContainsSubstring("`v` is a tensor")));
    arguments.back() = {"v", tensor(x.v.data(), {1, 1, 1})};
    CHECK_THROWS_MATCHES(evaluate(plain().view(), arguments), std::invalid_argument,
                         MessageMatches(ContainsSubstring("rank 3, expected 4")));
    CHECK_THROWS_AS(evaluate(plain().view(), x.arguments(), {.rows = {1}}), std::invalid_argument);
    CHECK_THROWS_MATCHES(evaluate(plain().view(), x.arguments())["lsee"], std::out_of_range,
                         MessageMatches(ContainsSubstring("only out, lse")));
}
