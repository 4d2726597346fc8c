#pragma once
#include "schedules/database.hpp"
#include "tuner/statistics.hpp"

#include <optional>
#include <string>
#include <vector>

namespace attune::generators {

/// What became of one candidate.
struct tried_candidate {
    generators::schedule schedule;
    std::vector<round_times> rounds;  ///< against the incumbent of its time
    std::string wrong;                ///< why it cannot win: a sentence, or empty
    double compile_seconds{};
    double at{};  ///< seconds since the search began, those before an interruption included
};

/// The last comparison: the default, the incumbent and whatever else may be the fastest, interleaved.
struct final_rounds {
    std::vector<schedule> schedules;           ///< the default first
    std::vector<std::vector<double>> seconds;  ///< a round each, in that order
};

/// Two schedules timed interleaved at one length: the usual one the incumbent, that of short calls the challenger.
struct length_rounds {
    std::int64_t queries{};
    std::vector<round_times> rounds;
};

/// Up to which length calls are served best by the schedule of short calls: where what it gains over all shorter
/// lengths is most; 0 where that is nothing. Blocks of other sizes fit some lengths and not others, so that one at
/// which it is slower does not end it.
std::int64_t longest_served(const std::vector<length_rounds>& lengths, const duel_rules& rules = {});

/// What a search chose, and over what.
struct search_choice {
    generators::schedule schedule;
    double seconds{}, default_seconds{};
    comparison over_default;  ///< its time over the default's
};

/// The decisions of a search, from measured times alone: a log decides as the search that wrote it did.
class search_state {
public:
    /// `space` is of candidates(), the default first; `cost` what the model says of each. A quarter of the order is
    /// drawn by the seed from what the model would try late.
    search_state(std::vector<schedule> space, const std::vector<double>& cost, unsigned seed, const duel_rules& rules,
                 bool default_stays);

    const std::vector<schedule>& order() const { return order_; }  ///< without the default
    const schedule& incumbent() const { return incumbent_; }
    double incumbent_over_default() const { return score_; }
    /// The same from the cautious ends of its victories' intervals: of many noisy ratios those that win are the lucky
    /// ones, and their product is too good.
    double cautious_over_default() const { return cautious_; }
    double incumbent_seconds() const { return seconds_; }        ///< when it won; 0 for the default
    const comparison& last_victory() const { return victory_; }  ///< of the incumbent over the one before
    const duel_rules& rules() const { return rules_; }

    /// Takes a candidate's times: the incumbent is replaced if the rules say so (in a search whose default stays,
    /// never).
    standing record(const tried_candidate& tried);
    std::size_t tried() const { return tried_.size(); }
    std::size_t wrong() const;
    bool knows(const schedule& s) const;
    /// Times over the default's of all that were timed, in the order of trying.
    const std::vector<std::pair<schedule, double>>& scores() const { return scores_; }
    /// How much the incumbents' own times differed.
    double noise() const;

    /// The default, the incumbent, and up to four others that came closest.
    std::vector<schedule> finalists() const;
    search_choice decide(const final_rounds& last) const;
    static constexpr std::size_t final_round_count = 15, noisy_final_round_count = 45;
    /// How often the finalists are timed, said before they are: more often where the search found its machine noisy,
    /// for the interval narrows with the rounds.
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

}  // namespace attune::generators
