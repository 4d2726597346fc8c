#include "tuner/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace attune::generators::inline tuner {
namespace {

double sorted_median(const std::vector<double>& v) {
    return v.size() % 2 ? v[v.size() / 2] : (v[v.size() / 2 - 1] + v[v.size() / 2]) / 2;
}

/// Probability that the median lies between the (drop + 1)-th smallest and largest of n independent values: 1 - 2
/// P(Binomial(n, 1/2) <= drop).
double coverage_of_order(std::size_t n, std::size_t drop) {
    double tail = 0, term = std::pow(0.5, static_cast<double>(n));
    for (std::size_t i = 0; i <= drop; ++i) {
        tail += term;
        term *= static_cast<double>(n - i) / static_cast<double>(i + 1);
    }
    return 1 - 2 * tail;
}

std::vector<double> ranks(std::span<const double> values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
    std::vector<double> rank(values.size());
    for (std::size_t first = 0; first < order.size();) {
        std::size_t last = first;
        while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
        for (std::size_t i = first; i < last; ++i) rank[order[i]] = static_cast<double>(first + last - 1) / 2;
        first = last;
    }
    return rank;
}

}  // namespace

comparison compared(std::span<const round_times> rounds, double confidence) {
    if (rounds.empty()) return {};
    std::vector<double> ratios;
    for (const round_times& r : rounds) ratios.push_back(r.challenger / r.incumbent);
    std::sort(ratios.begin(), ratios.end());
    const std::size_t n = ratios.size();
    std::size_t drop = 0;  // as many at each end as leave the confidence
    while (2 * (drop + 1) < n && coverage_of_order(n, drop + 1) >= confidence) ++drop;
    comparison c{sorted_median(ratios), ratios[drop], ratios[n - 1 - drop], coverage_of_order(n, drop)};
    if (c.confidence < confidence) c.confidence = 0;
    return c;
}

standing judged(std::span<const round_times> rounds, const duel_rules& rules) {
    if (rounds.size() >= rules.hopeless_after) {
        double best = rounds[0].challenger, worst = rounds[0].incumbent;
        for (const round_times& r : rounds) best = std::min(best, r.challenger), worst = std::max(worst, r.incumbent);
        if (best > rules.hopeless * worst) return standing::slower;
    }
    const comparison c = compared(rounds, rules.confidence);
    if (c.confidence > 0 && c.high < 1) return standing::faster;
    if (c.confidence > 0 && c.low > 1) return standing::slower;
    return rounds.size() >= rules.rounds ? standing::same : standing::undecided;
}

double median(std::span<const double> values) {
    std::vector<double> sorted(values.begin(), values.end());
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? 0 : sorted_median(sorted);
}

double scatter(std::span<const double> values) {
    if (values.size() < 4) return 0;
    std::vector<double> sorted(values.begin(), values.end());
    std::sort(sorted.begin(), sorted.end());
    return (sorted[sorted.size() * 3 / 4] - sorted[sorted.size() / 4]) / sorted_median(sorted);
}

double rank_correlation(std::span<const double> x, std::span<const double> y) {
    if (x.size() != y.size() || x.size() < 2) return 0;
    const std::vector<double> a = ranks(x), b = ranks(y);
    const double mean = static_cast<double>(a.size() - 1) / 2;
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        ab += (a[i] - mean) * (b[i] - mean);
        aa += (a[i] - mean) * (a[i] - mean);
        bb += (b[i] - mean) * (b[i] - mean);
    }
    return aa == 0 || bb == 0 ? 0 : ab / std::sqrt(aa * bb);
}

}  // namespace attune::generators::inline tuner
