#pragma once
#include <limits>
#include <span>
#include <vector>

/// What becomes of the scores of a row. A score of -infinity is masked; so is a weight of -infinity, which whoever
/// reads it takes for 0.
namespace attune::reference {

inline constexpr double masked = -std::numeric_limits<double>::infinity();

inline double weight_of(double w) { return w == masked ? 0.0 : w; }

double largest(std::span<const double> scores);  ///< -infinity over nothing

/// The sink, where it is not -infinity, is one more score whose weight is dropped.
double log_sum_exp(std::span<const double> scores, double sink);
std::vector<double> softmax(std::span<const double> scores, double sink);

double sum_of_weights(std::span<const double> weights);

}  // namespace attune::reference
