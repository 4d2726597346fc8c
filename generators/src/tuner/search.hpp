#pragma once
#include "schedules/database.hpp"
#include "tuner/statistics.hpp"

#include <optional>
#include <string>
#include <vector>

namespace attune::generators::inline tuner {

/// The result of one candidate.
struct tried_candidate {
    generators::schedule schedule;
    std::vector<round_times> rounds;  ///< against the incumbent at that time
    std::string wrong;                ///< why it cannot win: a sentence, or empty
    double compile_seconds{};
    double at{};  ///< seconds since the search began, including those before an interruption
};

/// The last comparison: the default, the incumbent and the closest others, timed interleaved.
struct final_rounds {
    std::vector<schedule> schedules;           ///< the default first
    std::vector<std::vector<double>> seconds;  ///< for each round, in that order
};

/// Two schedules timed interleaved at one length. The incumbent is the usual schedule, the challenger that of short
/// calls.
struct length_rounds {
    std::int64_t queries{};
    std::vector<round_times> rounds;
};

/// The length up to which the schedule of short calls is used: there its total gain over all shorter lengths is
/// largest. 0 if it gains nothing. A length at which it is slower does not end the range, because blocks of other sizes
/// fit some lengths and not others.
std::int64_t longest_served(const std::vector<length_rounds>& lengths, const duel_rules& rules = {});

/// The choice of a search.
struct search_choice {
    generators::schedule schedule;
    double seconds{}, default_seconds{};
    comparison over_default;  ///< its time over the default's
};

/// The decisions of a search, from measured times alone, so that a replayed log gives the same decisions.
class search_state {
public:
    /// `space` comes from candidates(), the default first; `cost` is the model's estimate of each. Every fourth place
    /// of the order is drawn at random, by the seed, from all that are left.
    search_state(std::vector<schedule> space, const std::vector<double>& cost, unsigned seed, const duel_rules& rules,
                 bool default_stays);

    const std::vector<schedule>& order() const { return order_; }  ///< without the default
    const schedule& incumbent() const { return incumbent_; }
    double incumbent_over_default() const { return score_; }
    /// The same from the cautious ends of the intervals of its victories. Among many noisy ratios the lucky ones win,
    /// so the product of their medians is too good.
    double cautious_over_default() const { return cautious_; }
    double incumbent_seconds() const { return seconds_; }        ///< when it won; 0 for the default
    const comparison& last_victory() const { return victory_; }  ///< of the incumbent over the one before
    const duel_rules& rules() const { return rules_; }

    /// Takes a candidate's times, and replaces the incumbent if the rules say so. In a search whose default stays it is
    /// never replaced.
    standing record(const tried_candidate& tried);
    std::size_t tried() const { return tried_.size(); }
    std::size_t wrong() const;
    bool knows(const schedule& s) const;
    /// The times of all candidates over the default's, in the order of trying.
    const std::vector<std::pair<schedule, double>>& scores() const { return scores_; }
    /// How much the incumbents' own times differed.
    double noise() const;

    /// The default, the incumbent, and up to four others that came closest.
    std::vector<schedule> finalists() const;
    search_choice decide(const final_rounds& last) const;
    static constexpr std::size_t final_round_count = 15, noisy_final_round_count = 45;
    /// How often the finalists will be timed: more often if the search found its machine noisy, because the interval
    /// narrows with the rounds.
    std::size_t final_rounds_needed() const {
        return noise() > noisy_scatter ? noisy_final_round_count : final_round_count;
    }

private:
    std::vector<schedule> order_;
    schedule default_, incumbent_;
    double score_ = 1, cautious_ = 1;  ///< of the incumbent, its time over the default's
    double seconds_ = 0;
    comparison victory_{};
    duel_rules rules_;
    bool default_stays_;
    std::vector<tried_candidate> tried_;
    std::vector<std::pair<schedule, double>> scores_;
    std::vector<double> scatters_;
};

}  // namespace attune::generators::inline tuner
