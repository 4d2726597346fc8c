#include "statistics.hpp"

#include <algorithm>
#include <cmath>

namespace attune::reference {

double largest(std::span<const double> scores) {
    double top = masked;
    for (double s : scores)
        if (std::isnan(s) || s > top) top = s;  // nothing is above a NaN
    return top;
}

double log_sum_exp(std::span<const double> scores, double sink) {
    const double top = std::max(largest(scores), sink);
    if (top == masked) return sink;  // masked, or NaN
    double sum = std::exp(sink - top);
    for (double s : scores) sum += std::exp(s - top);
    return top + std::log(sum);
}

std::vector<double> softmax(std::span<const double> scores, double sink) {
    const double top = std::max(largest(scores), sink);
    std::vector<double> weights(scores.size(), masked);
    if (top == masked) return weights;
    double sum = std::exp(sink - top);
    for (double s : scores) sum += std::exp(s - top);
    for (std::size_t i = 0; i < scores.size(); ++i)
        if (scores[i] != masked) weights[i] = std::exp(scores[i] - top) / sum;
    return weights;
}

namespace {
/// Places of all numbers but -infinity, the largest first.
std::vector<std::size_t> from_the_largest(std::span<const double> numbers) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < numbers.size(); ++i)
        if (numbers[i] != masked) order.push_back(i);
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
        return std::isnan(numbers[a]) ? !std::isnan(numbers[b]) : numbers[a] > numbers[b];
    });
    return order;
}

void mark(std::span<double> numbers, std::span<const std::size_t> places) {
    std::ranges::fill(numbers, 0.0);
    for (const std::size_t i : places) numbers[i] = 1.0;
}
}  // namespace

void mark_largest(std::span<double> numbers, std::int64_t count) {
    std::vector<std::size_t> order = from_the_largest(numbers);
    order.resize(std::min(order.size(), static_cast<std::size_t>(std::max<std::int64_t>(count, 0))));
    mark(numbers, order);
}

void mark_largest_share(std::span<double> numbers, double share) {
    std::vector<std::size_t> order = from_the_largest(numbers);
    const auto amount = [&](std::size_t i) { return numbers[i] > 0 ? numbers[i] : 0.0; };
    double all = 0, so_far = 0;
    for (const std::size_t i : order) all += amount(i);
    std::size_t chosen = 0;
    while (chosen < order.size() && so_far < share * all) so_far += amount(order[chosen++]);
    order.resize(chosen);
    mark(numbers, order);
}

double sum_of_weights(std::span<const double> weights) {
    double sum = 0;
    for (double w : weights) sum += weight_of(w);
    return sum;
}

}  // namespace attune::reference
