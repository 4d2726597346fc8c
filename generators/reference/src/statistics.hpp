#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

/// The statistics of a row of scores. A score of -infinity is masked; so is a weight of -infinity, which readers take
/// for 0.
namespace attune::reference {

inline constexpr double masked = -std::numeric_limits<double>::infinity();

inline double weight_of(double w) { return w == masked ? 0.0 : w; }

double largest(std::span<const double> scores);  ///< -infinity over nothing

/// The sink, unless it is -infinity, is one more score whose weight is dropped.
double log_sum_exp(std::span<const double> scores, double sink);
std::vector<double> softmax(std::span<const double> scores, double sink);

/// Each number becomes 1 if it is among the `count` largest, else 0. Among equal numbers the first are chosen. NaN is
/// the largest, and -infinity is never chosen.
void mark_largest(std::span<double> numbers, std::int64_t count);
/// As many of the largest as it takes for their sum to be this share of the sum of all; negative numbers and NaN count
/// as 0.
void mark_largest_share(std::span<double> numbers, double share);

double sum_of_weights(std::span<const double> weights);

}  // namespace attune::reference
