#pragma once
#include <cstddef>
#include <span>
#include <utility>

/// What times say. Nothing here measures, so that a log decides as the search did.
namespace attune::generators {

/// Seconds of the incumbent and of a challenger, taken one after the other.
struct round_times {
    double incumbent{}, challenger{};
};

/// Of a challenger's time over the incumbent's: the median over the rounds, and an interval that holds it with the
/// confidence asked for.
struct comparison {
    double ratio{}, low{}, high{};
    double confidence{};  ///< that the interval has: of order statistics (the sign test), so that nothing is assumed of
                          ///< how times scatter; 0 for none
    /// Half the interval, relative.
    double noise() const { return (high - low) / 2; }
};
comparison compared(std::span<const round_times> rounds, double confidence);

enum class standing { undecided, faster, slower, same };

struct duel_rules {
    double confidence = 0.95;
    std::size_t rounds = 9;  ///< at most
    std::size_t hopeless_after =
        3;  ///< rounds after which a challenger is given up whose best time is `hopeless` times the incumbent's worst
    double hopeless = 1.1;
};

/// After these rounds: faster or slower as soon as the interval leaves 1, the same where all rounds could not tell.
standing judged(std::span<const round_times> rounds, const duel_rules& rules = {});

double median(std::span<const double> values);
/// Distance of the quartiles over the median: how much one thing's own times differ.
double scatter(std::span<const double> values);
/// Above this a machine is called noisy.
inline constexpr double noisy_scatter = 0.05;

/// Spearman's rank correlation; 0 for fewer than two values. Equal values share their mean rank.
double rank_correlation(std::span<const double> x, std::span<const double> y);

}  // namespace attune::generators
