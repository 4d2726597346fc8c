#pragma once
#include <attune/workload.hpp>
#include "conventions.hpp"

#include <attune/runtime.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

/// Calls of conventions.hpp, and loops to hold them against.
namespace against_loops {
using namespace attune;
using support::shape;
using support::workload;

constexpr double inf = std::numeric_limits<double>::infinity();

constexpr shape square{
    .batches = 2, .heads = 4, .key_heads = 2, .queries = 90, .keys = 90, .depth = 16, .value_depth = 16};
constexpr shape wide{
    .batches = 2, .heads = 4, .key_heads = 2, .queries = 37, .keys = 150, .depth = 16, .value_depth = 16};
constexpr shape tall{
    .batches = 2, .heads = 4, .key_heads = 2, .queries = 150, .keys = 37, .depth = 16, .value_depth = 16};
constexpr shape decode{
    .batches = 2, .heads = 4, .key_heads = 2, .queries = 1, .keys = 150, .depth = 16, .value_depth = 16};
constexpr std::int64_t depth = 16;

struct results {
    std::vector<double> out, lse;
};

/// The score of a pair, from its number q . k, not scaled; -infinity where it is not seen.
using score = std::function<double(std::int64_t h, std::int64_t i, std::int64_t j, double product)>;

inline results loops(
    workload& call, const shape& s, const score& of,
    const std::function<std::optional<double>(std::int64_t h)>& sink = [](std::int64_t) { return std::nullopt; }) {
    const auto &q = call["q"].reals, &k = call["k"].reals, &v = call["v"].reals;
    results r;
    for (std::int64_t bh = 0; bh < s.batches * s.heads; ++bh)
        for (std::int64_t i = 0; i < s.queries; ++i) {
            const std::int64_t h = bh % s.heads, panel = bh / s.heads * s.key_heads + h / (s.heads / s.key_heads);
            const auto at = [](std::int64_t row, std::int64_t d) { return static_cast<std::size_t>(row * depth + d); };
            std::vector<double> scores;
            for (std::int64_t j = 0; j < s.keys; ++j) {
                double product = 0;
                for (std::int64_t d = 0; d < depth; ++d)
                    product += static_cast<double>(q[at(bh * s.queries + i, d)]) * k[at(panel * s.keys + j, d)];
                scores.push_back(of(h, i, j, product));
            }
            double sum = 0;
            std::vector<double> out(depth, 0.0);
            for (std::int64_t j = 0; j < s.keys; ++j) {
                const double e = std::exp(scores[static_cast<std::size_t>(j)]);
                sum += e;
                for (std::int64_t d = 0; d < depth; ++d)
                    out[static_cast<std::size_t>(d)] += e == 0 ? 0.0 : e * v[at(panel * s.keys + j, d)];
            }
            if (const auto logit = sink(h)) sum += std::exp(*logit);
            for (double x : out) r.out.push_back(sum == 0 ? 0.0 : x / sum);
            r.lse.push_back(std::log(sum));
        }
    return r;
}

inline double error(const std::vector<float>& got, const std::vector<double>& expected) {
    double worst = got.size() == expected.size() ? 0 : inf;
    for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
        if (got[i] == expected[i]) continue;
        const double e = std::abs(got[i] - expected[i]);
        worst = std::max(worst, std::isnan(e) ? inf : e);
    }
    return worst;
}

template <const auto& Graph> workload call_of(const shape& s, std::map<std::string, double> numbers = {}) {
    return workload(dsl::ir_of<Graph>, s, 33, std::move(numbers));
}

template <const auto& Graph> void run(workload& call) {
    detail::call(attune::detail::table_of<Graph>(), call.arguments(), {});
}

inline void check(workload& call, const results& expected) {
    CHECK(error(call["out"].reals, expected.out) < 5e-6);
    CHECK(error(call["lse"].reals, expected.lse) < 5e-6);
}

/// The graph's kernel against loops over a condition on (i, j), for every relation of the lengths.
template <const auto& Graph>
void check_mask(const std::function<bool(const shape&, std::int64_t i, std::int64_t j)>& seen,
                const std::map<std::string, double>& numbers = {}) {
    for (const shape& s : {square, wide, tall, decode}) {
        INFO(s.text());
        workload call = call_of<Graph>(s, numbers);
        run<Graph>(call);
        check(call, loops(call, s, [&](auto, std::int64_t i, std::int64_t j, double product) {
                  return seen(s, i, j) ? product / 4 : -inf;
              }));
    }
}

/// The paper's slopes: 2^(-8 (h + 1) / n) for the n heads of a power of two, and every second slope of 2 n for those
/// left.
inline std::vector<float> slopes_of(std::int64_t heads) {
    std::int64_t n = 1;
    while (2 * n <= heads) n *= 2;
    std::vector<float> slopes;
    for (std::int64_t h = 0; h < n; ++h)
        slopes.push_back(static_cast<float>(std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(n))));
    for (std::int64_t h = 0; h < heads - n; ++h)
        slopes.push_back(
            static_cast<float>(std::exp2(-8.0 * static_cast<double>(2 * h + 1) / static_cast<double>(2 * n))));
    return slopes;
}

}  // namespace against_loops
