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
    if (top == masked) return masked;
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

double sum_of_weights(std::span<const double> weights) {
    double sum = 0;
    for (double w : weights) sum += weight_of(w);
    return sum;
}

}  // namespace attune::reference
