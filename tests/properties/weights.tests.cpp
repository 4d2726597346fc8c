// The laws between outputs of one graph: weights, their sums, scores, maxima, log-sum-exps.
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

/// More queries than keys: the first rows are empty.
constexpr shape tall{
    .batches = 2, .heads = 4, .key_heads = 2, .queries = 301, .keys = 77, .depth = 16, .value_depth = 16};

struct sizes {
    std::size_t batches, heads, group, queries, keys, depth;
    explicit sizes(const shape& s)
        : batches(static_cast<std::size_t>(s.batches)),
          heads(static_cast<std::size_t>(s.heads)),
          group(static_cast<std::size_t>(s.heads / s.key_heads)),
          queries(static_cast<std::size_t>(s.queries)),
          keys(static_cast<std::size_t>(s.keys)),
          depth(static_cast<std::size_t>(s.value_depth)) {}
    std::size_t rows() const { return batches * heads * queries; }
    std::size_t key_panel(std::size_t row) const {
        return (row / queries) / heads * (heads / group) + (row / queries) % heads / group;
    }
};

double worst_of(std::size_t count, auto error) {
    double worst = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const double e = std::abs(error(i));
        worst = std::max(worst, std::isnan(e) ? 1e30 : e);
    }
    return worst;
}

}  // namespace

TEST_CASE("softmax's weights of a row sum to one, or to zero where nothing is visible") {
    for (const shape& s : {usual_formula, tall}) {
        formula_call call("every", s);
        call.run();
        const auto &weights = call.reals("weights"), &sum = call.reals("sum"), &lse = call.reals("lse");
        const sizes n(s);
        std::size_t empty = 0;
        for (float x : lse) empty += x == -inf;
        CHECK((empty > 0) == (s.queries > s.keys));
        CHECK(worst_of(n.rows(), [&](std::size_t row) { return sum[row] - (lse[row] == -inf ? 0.0 : 1.0); }) < 2e-6);
        CHECK(worst_of(n.rows(), [&](std::size_t row) {
                  double all = 0;
                  for (std::size_t key = 0; key < n.keys; ++key) all += weights[row * n.keys + key];
                  return all - sum[row];
              }) < 2e-6);
    }
}

TEST_CASE("weights times the values are the output") {
    for (const char* name : {"every", "sunk", "sigmoid_attention"})
        for (const shape& s : {usual_formula, tall}) {
            formula_call call(name, s);
            call.run();
            const auto &weights = call.reals("weights"), &out = call.reals("out"), &v = call.reals("v");
            const sizes n(s);
            INFO(name);
            CHECK(worst_of(n.rows() * n.depth, [&](std::size_t i) {
                      const std::size_t row = i / n.depth, d = i % n.depth;
                      double sum = 0;
                      for (std::size_t key = 0; key < n.keys; ++key)
                          sum += static_cast<double>(weights[row * n.keys + key]) *
                                 v[(n.key_panel(row) * n.keys + key) * n.depth + d];
                      return sum - out[i];
                  }) < 2e-5);
        }
}

TEST_CASE("sums over the queries count the rows that see something") {
    for (const shape& s : {usual_formula, tall}) {
        formula_call call("every", s);
        call.run();
        const auto &by_key = call.reals("by_key"), &weights = call.reals("weights"), &lse = call.reals("lse");
        const sizes n(s);
        CHECK(worst_of(n.batches * n.heads, [&](std::size_t head) {
                  double total = 0, rows = 0;
                  for (std::size_t key = 0; key < n.keys; ++key) total += by_key[head * n.keys + key];
                  for (std::size_t q = 0; q < n.queries; ++q) rows += lse[head * n.queries + q] != -inf;
                  return total - rows;
              }) < 1e-4);
        CHECK(worst_of(n.batches * n.heads * n.keys, [&](std::size_t i) {
                  double sum = 0;
                  for (std::size_t q = 0; q < n.queries; ++q)
                      sum += weights[(i / n.keys * n.queries + q) * n.keys + i % n.keys];
                  return sum - by_key[i];
              }) < 2e-5);
    }
}

TEST_CASE("the mean over the heads is that of the weights") {
    formula_call call("every", usual_formula);
    call.run();
    const auto &by_head = call.reals("by_head"), &weights = call.reals("weights");
    const sizes n(usual_formula);
    const std::size_t pairs = n.queries * n.keys;
    CHECK(worst_of(n.batches * pairs, [&](std::size_t i) {
              double sum = 0;
              for (std::size_t head = 0; head < n.heads; ++head)
                  sum += weights[(i / pairs * n.heads + head) * pairs + i % pairs];
              return sum / static_cast<double>(n.heads) - by_head[i];
          }) < 1e-6);
}

TEST_CASE("scores, maximum and log-sum-exp of a row belong together; the raw scores know no mask") {
    for (const shape& s : {usual_formula, tall}) {
        formula_call call("every", s);
        call.run();
        const auto &scores = call.reals("scores"), &raw = call.reals("raw"), &weights = call.reals("weights"),
                   &top = call.reals("top"), &lse = call.reals("lse");
        const sizes n(s);
        bool masked_alike = true, seen_alike = true, finite = true;
        for (std::size_t i = 0; i < scores.size(); ++i) {
            masked_alike = masked_alike && (scores[i] == -inf ? weights[i] == 0.0f : true);
            seen_alike =
                seen_alike && (scores[i] == -inf || std::abs(scores[i] - raw[i] / 4) < 1e-5);  // scale is 1 / sqrt(16)
            finite = finite && std::isfinite(raw[i]);
        }
        CHECK(masked_alike);
        CHECK(seen_alike);
        CHECK(finite);
        bool tops = true;
        double worst = 0;
        for (std::size_t row = 0; row < n.rows(); ++row) {
            const float* from = scores.data() + row * n.keys;
            const float largest = *std::max_element(from, from + n.keys);
            tops = tops && (largest == top[row] || std::abs(largest - top[row]) < 1e-6f);
            double sum = 0;
            for (std::size_t key = 0; key < n.keys; ++key)
                sum += std::exp(static_cast<double>(from[key]) - (largest == -inf ? 0.0f : largest));
            const double expected = largest == -inf ? -HUGE_VAL : largest + std::log(sum);
            if (expected != lse[row]) worst = std::max(worst, std::abs(expected - lse[row]));
        }
        CHECK(tops);
        CHECK(worst < 2e-6);
    }
}

TEST_CASE("what is not named changes nothing: the output beside all others has the numbers of plain attention") {
    formula_call every("every", usual_formula, 21, {{"w", 1000}}), plain("plain", usual_formula);
    plain.take_inputs(every);
    every.run(), plain.run();
    // Its mask is causal from the bottom right: the last query of every head sees all keys, as without a mask.
    const sizes n(usual_formula);
    double worst = 0;
    for (std::size_t head = 0; head < n.batches * n.heads; ++head)
        for (std::size_t d = 0; d < n.depth; ++d) {
            const std::size_t at = ((head + 1) * n.queries - 1) * n.depth + d;
            worst = std::max(worst, std::abs(static_cast<double>(every.reals("out")[at]) - plain.reals("out")[at]));
        }
    CHECK(worst < 2e-6);
}
