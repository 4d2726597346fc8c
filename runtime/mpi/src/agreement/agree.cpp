#include <algorithm>
#include <attune/mpi/agree.hpp>
#include <charconv>
#include <cstring>
#include <map>

#include "base/text.hpp"

namespace attune::mpi {

namespace {

using detail::say;

void put(std::vector<std::byte>& to, std::string_view text) {
    const auto size = static_cast<std::uint32_t>(text.size());
    const auto* const head = reinterpret_cast<const std::byte*>(&size);
    const auto* const body = reinterpret_cast<const std::byte*>(text.data());
    to.insert(to.end(), head, head + sizeof(size));
    to.insert(to.end(), body, body + text.size());
}

std::string take(std::span<const std::byte>& from) {
    std::uint32_t size = 0;
    std::memcpy(&size, from.data(), sizeof(size));
    std::string text(reinterpret_cast<const char*>(from.data() + sizeof(size)), size);
    from = from.subspan(sizeof(size) + size);
    return text;
}

/// What the ranks say, each text with those who say it, the lowest rank's first.
class answers {
public:
    void add(const std::string& text, int rank) {
        auto at = std::find_if(said_.begin(), said_.end(), [&](const auto& each) { return each.first == text; });
        if (at == said_.end()) at = said_.insert(at, {text, {}});
        at->second.push_back(rank);
    }
    bool differ() const { return said_.size() > 1; }
    /// "f32 (4) on 0 and 1 and f32 (8) on 2"
    std::string text() const {
        constexpr std::size_t most = 3;
        const std::size_t shown = std::min(said_.size(), most);
        std::string all;
        for (std::size_t i = 0; i < shown; ++i) {
            if (i > 0) all += i + 1 == said_.size() ? " and " : ", ";
            all += say(said_[i].first, " on ", list_of_ranks(said_[i].second));
        }
        if (shown < said_.size()) all += say(" and ", said_.size() - shown, " others");
        return all;
    }
    const auto& first() const { return said_.front(); }

private:
    std::vector<std::pair<std::string, std::vector<int>>> said_;
};

}  // namespace

std::string list_of_ranks(std::span<const int> ranks) {
    std::vector<std::string> runs;
    std::size_t at = 0, named = 0;
    for (; at < ranks.size() && runs.size() < 4; named = at) {
        std::size_t end = at + 1;
        while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
        if (end - at < 3) end = at + 1;
        runs.push_back(end - at == 1 ? std::to_string(ranks[at]) : say(ranks[at], " to ", ranks[end - 1]));
        at = end;
    }
    if (named < ranks.size()) runs.push_back(say(ranks.size() - named, " others"));
    std::string all;
    for (std::size_t i = 0; i < runs.size(); ++i)
        all += say(i == 0 ? "" : i + 1 == runs.size() ? " and " : ", ", runs[i]);
    return all;
}

void statement::add(std::string_view what, std::string_view value, std::string_view attempt) {
    facts_.push_back({std::string(what), std::string(value), std::string(attempt)});
}

std::vector<std::byte> statement::bytes() const {
    std::vector<std::byte> all;
    put(all, call_);
    put(all, refusal_);
    for (const fact& each : facts_) put(all, each.what), put(all, each.value), put(all, each.attempt);
    return all;
}

statement statement::of(std::span<const std::byte> bytes) {
    statement said(take(bytes));
    said.refusal_ = take(bytes);
    while (!bytes.empty()) {
        fact each{take(bytes), take(bytes), take(bytes)};
        said.facts_.push_back(std::move(each));
    }
    return said;
}

std::uint64_t statement::fingerprint() const {
    std::uint64_t hash = 14695981039346656037ull;  // FNV-1a, as of formulas
    for (const std::byte each : bytes()) hash = (hash ^ std::to_integer<std::uint64_t>(each)) * 1099511628211ull;
    return hash;
}

std::optional<std::string> disagreement(std::span<const statement> all) {
    const int size = static_cast<int>(all.size());
    answers calls, refusals;
    for (int rank = 0; rank < size; ++rank) {
        calls.add(all[rank].call_, rank);
        if (all[rank].refuses()) refusals.add(all[rank].refusal_, rank);
    }
    if (calls.differ())
        return detail::refusal("one call on all ranks", calls.text(), "the same calls in the same order on every rank");
    if (std::any_of(all.begin(), all.end(), [](const statement& each) { return each.refuses(); })) {
        const auto& [sentence, ranks] = refusals.first();
        if (static_cast<int>(ranks.size()) == size) return sentence;
        constexpr std::string_view head = "attune: ";
        const std::size_t from = sentence.starts_with(head) ? head.size() : 0;
        return say(head, "on rank", ranks.size() > 1 ? "s " : " ", list_of_ranks(ranks), ": ",
                   std::string_view(sentence).substr(from));
    }
    // In the order in which the lowest rank that has them says them.
    std::vector<const statement::fact*> known;
    for (const statement& each : all)
        for (const auto& fact : each.facts_)
            if (std::none_of(known.begin(), known.end(), [&](const auto* k) { return k->what == fact.what; }))
                known.push_back(&fact);
    for (const statement::fact* const fact : known) {
        answers said;
        for (int rank = 0; rank < size; ++rank) {
            const auto& facts = all[rank].facts_;
            const auto at =
                std::find_if(facts.begin(), facts.end(), [&](const auto& f) { return f.what == fact->what; });
            said.add(at == facts.end() ? "none" : at->value, rank);
        }
        if (said.differ()) return detail::refusal(say("one ", fact->what, " on all ranks"), said.text(), fact->attempt);
    }
    return std::nullopt;
}

std::string exactly(double number) {
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

}  // namespace attune::mpi
