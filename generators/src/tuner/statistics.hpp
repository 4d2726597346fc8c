#pragma once
#include <cstddef>
#include <span>
#include <utility>

/// The meaning of measured times. Nothing here measures, so that a replayed log gives the same decisions.
namespace attune::generators::inline tuner {

/// Seconds of the incumbent and of a challenger, taken one after the other.
struct round_times {
    double incumbent{}, challenger{};
};

/// A challenger's time over the incumbent's: the median of the rounds, and an interval that contains it with the given
/// confidence.
struct comparison {
    double ratio{}, low{}, high{};
    double confidence{};  ///< of the interval, by order statistics (the sign test), which assume no distribution of
                          ///< times; 0 for none
    /// Half the interval, relative.
    double noise() const { return (high - low) / 2; }
};
comparison compared(std::span<const round_times> rounds, double confidence);

enum class standing { undecided, faster, slower, same };

struct duel_rules {
    double confidence = 0.95;
    std::size_t rounds = 9;          ///< at most
    std::size_t hopeless_after = 3;  ///< after so many rounds a challenger is given up if its best time is `hopeless`
                                     ///< times the incumbent's worst
    double hopeless = 1.1;
};

/// After these rounds: faster or slower if the interval does not contain 1; the same if all rounds are done and it
/// does.
standing judged(std::span<const round_times> rounds, const duel_rules& rules = {});

double median(std::span<const double> values);
/// The distance of the quartiles over the median: how much one kernel's own times differ.
double scatter(std::span<const double> values);
/// Above this a machine is called noisy.
inline constexpr double noisy_scatter = 0.05;

/// Spearman's rank correlation; 0 for fewer than two values. Equal values share their mean rank.
double rank_correlation(std::span<const double> x, std::span<const double> y);

}  // namespace attune::generators::inline tuner
