// The language beyond masks, score modifications and softmax, against the reference evaluator.
#include "../support/workload_values.hpp"
#include "language_list.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

using namespace attune;
using namespace attune::testing;
using support::shape;
using support::workload;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

const variant& named(const std::string& name) { return *std::ranges::find(language_variants(), name, &variant::name); }

double judge(const variant& v, workload& call, const std::string& level, int threads = 2) {
    call.reset_outputs();
    detail::call(*v.kernels, call.arguments(), {.threads = threads, .target = level});
    CHECK(outputs_untouched(call, true));
    const auto expected = call.expected();
    double worst = 0;
    for (const reference::array& output : expected.outputs) {
        double largest = 1;
        for (double x : output.values)
            if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
        INFO(output.name);
        const double error = call.largest_error(expected, output.name) / largest;
        CHECK(error <= 2e-5);
        worst = std::max(worst, error);
    }
    return worst;
}

std::vector<shape> shapes(std::int64_t depth, std::int64_t value_depth) {
    const auto of = [&](std::int64_t b, std::int64_t h, std::int64_t kh, std::int64_t lq, std::int64_t lk,
                        bool gaps = false) {
        return shape{.batches = b,
                     .heads = h,
                     .key_heads = kh,
                     .queries = lq,
                     .keys = lk,
                     .depth = depth,
                     .value_depth = value_depth,
                     .gaps = gaps};
    };
    return {of(1, 1, 1, 1, 1),           of(2, 4, 2, 7, 37),         of(1, 2, 1, 1, 130),
            of(2, 2, 2, 67, 130, true),  of(1, 6, 2, 130, 67, true), of(1, 1, 1, 37, 257),
            of(1, 3, 1, 130, 300, true), of(2, 2, 2, 48, 64),        of(3, 1, 1, 37, 0)};
}

}  // namespace

TEST_CASE("whatever the language says is computed as the reference does, at every length") {
    for (const variant& v : language_variants())
        for (const std::string& level : levels_here(*v.kernels)) {
            double worst = 0;
            unsigned seed = 40;
            for (const shape& s : shapes(32, 32)) {
                workload call = prepared(v, s, ++seed);
                INFO(v.name << " " << s.text() << " " << level);
                worst = std::max(worst, judge(v, call, level));
            }
            std::printf("%-16s %-12s largest error %.1e\n", v.name.c_str(), level.c_str(), worst);
        }
}

TEST_CASE("key lengths, none and all of them included, wherever keys are looked at") {
    for (const variant& v : language_variants()) {
        if (v.name == "merged" || v.name == "two_caches") continue;
        const shape s{
            .batches = 4, .heads = 2, .key_heads = 1, .queries = 53, .keys = 200, .depth = 32, .value_depth = 32};
        workload call = prepared(v, s, 78);
        call.set_lengths({0, 1, 131, 200});
        INFO(v.name);
        judge(v, call, levels_here(*v.kernels).front());
    }
}

TEST_CASE("scores of ten thousand") {
    for (const char* name : {"with_sink", "differential", "all_pairs", "window_pairs", "dropped"}) {
        const variant& v = named(name);
        workload call =
            prepared(v, {.heads = 2, .key_heads = 2, .queries = 67, .keys = 130, .depth = 32, .value_depth = 32}, 5);
        for (float& x : call["q"].reals) x *= 3000.0f;
        call.reset_outputs();
        detail::call(*v.kernels, call.arguments(), {});
        const auto expected = call.expected();
        // Half a unit in the last place of the score, exponentiated.
        INFO(name);
        CHECK(call.largest_error(expected, "out") <= 5e-3);
        CHECK(call.largest_error(expected, "lse") <= 5e-3);
    }
}

TEST_CASE("sums over queries and heads do not depend on the number of threads") {
    const variant& v = named("all_pairs");
    workload call = prepared(
        v, {.batches = 2, .heads = 3, .key_heads = 3, .queries = 301, .keys = 530, .depth = 32, .value_depth = 32}, 9);
    std::map<std::string, std::vector<float>> first;
    for (const int threads : {1, 2, 5}) {
        call.reset_outputs();
        detail::call(*v.kernels, call.arguments(), {.threads = threads});
        for (const output_declaration& output : v.graph.outputs) {
            const std::string name(output.name);
            const auto [at, is_first] = first.try_emplace(name, call[name].reals);
            INFO(name << ", " << threads << " threads");
            CHECK((is_first || at->second == call[name].reals));
        }
    }
}

TEST_CASE("weights of a row sum to one, and what is masked weighs nothing") {
    const variant& v = named("window_pairs");
    const std::int64_t length = 301;
    workload call = prepared(v, {.queries = length, .keys = length, .depth = 32, .value_depth = 32}, 12);
    detail::call(*v.kernels, call.arguments(), {});
    const std::vector<float>& weights = call["weights"].reals;
    for (std::int64_t query = 0; query < length; ++query) {
        double sum = 0;
        for (std::int64_t key = 0; key < length; ++key) {
            const float weight = weights[static_cast<std::size_t>(query * length + key)];
            if (key > query || query - key > 20) CHECK(weight == 0.0f);
            sum += weight;
        }
        CHECK(std::abs(sum - 1) < 1e-5);
    }
}

TEST_CASE("dropout drops the share that it says") {
    const variant& v = named("drawn");
    const std::int64_t length = 301;
    workload call = prepared(v, {.queries = length, .keys = length, .depth = 32, .value_depth = 32}, 13);
    detail::call(*v.kernels, call.arguments(), {});
    double kept = 0;
    for (const float weight : call["weights"].reals) kept += weight != 0.0f;
    // The mask is a function of the seed, so this cannot fail by chance: 4.5 standard deviations of 90601 draws with p
    // = 0.25.
    CHECK(std::abs(kept / static_cast<double>(length * length) - 0.75) <
          4.5 * std::sqrt(0.25 * 0.75 / static_cast<double>(length * length)));
}

TEST_CASE("merging the states of the parts of a call is the call, in any order") {
    const variant& merge = named("merged");
    const variant& whole = named("with_sink");
    const std::int64_t heads = 2, queries = 19, keys = 90, depth = 32;
    workload all = prepared(
        whole,
        {.heads = heads, .key_heads = heads, .queries = queries, .keys = keys, .depth = depth, .value_depth = depth},
        3);
    // Without mask or sink: the plain states of three parts, in double precision.
    const auto state = [&](std::int64_t first, std::int64_t last) {
        std::pair<std::vector<float>, std::vector<float>> result;
        for (std::int64_t h = 0; h < heads; ++h)
            for (std::int64_t q = 0; q < queries; ++q) {
                std::vector<double> sums(static_cast<std::size_t>(depth), 0.0), scores;
                double top = -infinity, sum = 0;
                for (std::int64_t k = first; k < last; ++k) {
                    double score = 0;
                    for (std::int64_t d = 0; d < depth; ++d)
                        score += double{all["q"].reals[static_cast<std::size_t>((h * queries + q) * depth + d)]} *
                                 all["k"].reals[static_cast<std::size_t>((h * keys + k) * depth + d)];
                    scores.push_back(score);
                    top = std::max(top, score);
                }
                for (std::int64_t k = first; k < last; ++k) {
                    const double weight = std::exp(scores[static_cast<std::size_t>(k - first)] - top);
                    sum += weight;
                    for (std::int64_t d = 0; d < depth; ++d)
                        sums[static_cast<std::size_t>(d)] +=
                            weight * all["v"].reals[static_cast<std::size_t>((h * keys + k) * depth + d)];
                }
                for (const double x : sums) result.first.push_back(sum > 0 ? static_cast<float>(x / sum) : 0.0f);
                result.second.push_back(static_cast<float>(top + std::log(sum)));
            }
        return result;
    };
    using pair = std::pair<std::vector<float>, std::vector<float>>;
    const auto merged = [&](const pair& x, const pair& y) {
        workload call = prepared(
            merge,
            {.heads = heads, .key_heads = heads, .queries = queries, .keys = 1, .depth = depth, .value_depth = depth},
            3);
        call["out_a"].reals = x.first, call["lse_a"].reals = x.second;
        call["out_b"].reals = y.first, call["lse_b"].reals = y.second;
        detail::call(*merge.kernels, call.arguments(), {});
        return pair{call["out"].reals, call["lse"].reals};
    };
    const pair a = state(0, 30), b = state(30, 31), c = state(31, keys), none = state(0, 0), expected = state(0, keys);
    for (const pair& got : {merged(merged(a, b), c), merged(a, merged(b, c)), merged(merged(c, none), merged(b, a))}) {
        for (std::size_t i = 0; i < got.first.size(); ++i) CHECK(std::abs(got.first[i] - expected.first[i]) < 1e-5);
        for (std::size_t i = 0; i < got.second.size(); ++i) CHECK(std::abs(got.second[i] - expected.second[i]) < 1e-4);
    }
    const pair empty = merged(none, none);
    CHECK(std::ranges::all_of(empty.first, [](float x) { return x == 0.0f; }));
    CHECK(std::ranges::all_of(empty.second, [](float x) { return x == -std::numeric_limits<float>::infinity(); }));
}
