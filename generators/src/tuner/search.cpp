#include "tuner/search.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace attune::generators::inline tuner {

std::int64_t longest_served(const std::vector<length_rounds>& lengths, const duel_rules& rules) {
    std::int64_t longest = 0;
    double gain = 0, most = 0;  // logarithms of the time ratios, so that half the time outweighs twice the time
    for (const length_rounds& at : lengths) {
        const standing is = judged(at.rounds, rules);
        if (is == standing::faster || is == standing::slower)
            gain -= std::log(compared(at.rounds, rules.confidence).ratio);
        if (is == standing::faster && gain > most) most = gain, longest = at.queries;
    }
    return longest;
}

search_state::search_state(std::vector<schedule> space, const std::vector<double>& cost, unsigned seed,
                           const duel_rules& rules, bool default_stays)
    : default_(space.front()), incumbent_(space.front()), rules_(rules), default_stays_(default_stays) {
    std::vector<std::size_t> ranked(space.size() - 1);
    std::iota(ranked.begin(), ranked.end(), std::size_t{1});
    std::stable_sort(ranked.begin(), ranked.end(), [&](std::size_t a, std::size_t b) { return cost[a] < cost[b]; });
    std::mt19937 random(seed);
    for (std::size_t i = 0; !ranked.empty(); ++i) {
        const std::size_t at = i % 4 == 3 ? random() % ranked.size() : 0;
        order_.push_back(space[ranked[at]]);
        ranked.erase(ranked.begin() + static_cast<std::ptrdiff_t>(at));
    }
}

standing search_state::record(const tried_candidate& tried) {
    tried_.push_back(tried);
    if (!tried.wrong.empty() || tried.rounds.empty()) return standing::slower;
    std::vector<double> incumbents;
    for (const round_times& r : tried.rounds) incumbents.push_back(r.incumbent);
    if (incumbents.size() >= 4) scatters_.push_back(scatter(incumbents));
    const comparison here = compared(tried.rounds, rules_.confidence);
    const double ratio = score_ * here.ratio;
    scores_.emplace_back(tried.schedule, ratio);
    const standing is = judged(tried.rounds, rules_);
    if (is == standing::faster && !default_stays_) {
        std::vector<double> times;
        for (const round_times& r : tried.rounds) times.push_back(r.challenger);
        incumbent_ = tried.schedule, score_ = ratio, cautious_ *= here.high, victory_ = here, seconds_ = median(times);
    }
    return is;
}

std::size_t search_state::wrong() const {
    return static_cast<std::size_t>(
        std::count_if(tried_.begin(), tried_.end(), [](const tried_candidate& t) { return !t.wrong.empty(); }));
}

bool search_state::knows(const schedule& s) const {
    return std::any_of(tried_.begin(), tried_.end(), [&](const tried_candidate& t) { return t.schedule == s; });
}

double search_state::noise() const { return median(scatters_); }

std::vector<schedule> search_state::finalists() const {
    std::vector<schedule> all{default_};
    if (!(incumbent_ == default_)) all.push_back(incumbent_);
    auto ranked = scores_;
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    for (const auto& [s, score] : ranked) {
        if (all.size() >= 6) break;
        if (score < score_ * 1.03 && std::find(all.begin(), all.end(), s) == all.end()) all.push_back(s);
    }
    return all;
}

search_choice search_state::decide(const final_rounds& last) const {
    const auto column = [&](std::size_t i) {
        std::vector<double> times;
        for (const auto& round : last.seconds) times.push_back(round.at(i));
        return times;
    };
    const double default_seconds = median(column(0));
    search_choice best{last.schedules.at(0), default_seconds, default_seconds, {1, 1, 1, rules_.confidence}};
    for (std::size_t i = 1; i < last.schedules.size(); ++i) {
        std::vector<round_times> rounds;
        for (const auto& round : last.seconds) rounds.push_back({round.at(0), round.at(i)});
        const comparison c = compared(rounds, rules_.confidence);
        const bool faster = c.confidence > 0 && c.high < 1;
        if (faster && c.ratio < best.over_default.ratio)
            best = {last.schedules[i], median(column(i)), default_seconds, c};
    }
    return best;
}

}  // namespace attune::generators::inline tuner
