#include "generate.hpp"

#include "drafts.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace language_model {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// The tokens of a tree, and which of them each sees.
void add(const draft_tree& tree, std::int64_t most_drafts, step& s) {
    const auto count = static_cast<std::int32_t>(tree.tokens.size());
    s.tokens.insert(s.tokens.end(), tree.tokens.begin(), tree.tokens.end());
    s.levels.insert(s.levels.end(), tree.levels.begin(), tree.levels.end());
    for (std::int32_t draft = 0; draft < count; ++draft)
        for (std::int32_t other = 0; other < most_drafts; ++other) s.above.push_back(tree.sees(draft, other));
}

}  // namespace

spent generate(const model& of, cache& past, std::span<sequence> all, const limits& limit,
               const std::function<bool(std::int32_t token)>& ends,
               const std::function<void(std::size_t sequence, std::int32_t token)>& said) {
    const auto slots = static_cast<std::size_t>(past.slots);
    for (const sequence& each : all)
        if (each.tokens.empty() || each.tokens.size() + limit.tokens > slots)
            throw std::invalid_argument("expected prompts of 1 to " + std::to_string(slots) + " tokens with " +
                                        std::to_string(limit.tokens) + " to say, got " +
                                        std::to_string(each.tokens.size()));
    const auto vocabulary = of.shape().vocabulary;
    const auto longest = static_cast<std::int32_t>(std::min<std::int64_t>(8, of.shape().window - 1));
    std::vector<std::size_t> stored(all.size());  // tokens whose keys and values are in the cache
    spent so_far;
    for (bool first = true;; first = false) {
        // A step of the tokens that are not stored yet, which behind the prompts is one a sequence, with drafts behind.
        const bool drafting = !first && limit.drafts > 0;
        step s;
        std::vector<draft_tree> trees;
        for (std::size_t i = 0; i < all.size(); ++i) {
            const std::size_t room = std::min(
                {limit.drafts, slots - all[i].tokens.size(), limit.tokens + all[i].prompt - all[i].tokens.size()});
            trees.push_back(drafting && !all[i].done ? look_up(all[i].tokens, room, longest)
                                                     : draft_tree(all[i].tokens.back()));
            s.most_drafts = std::max(s.most_drafts, static_cast<std::int64_t>(trees[i].tokens.size()));
        }
        for (std::size_t i = 0; i < all.size(); ++i) {
            const std::vector<std::int32_t>& tokens = all[i].tokens;
            if (drafting && !all[i].done)
                add(trees[i], s.most_drafts, s);
            else if (!all[i].done)
                s.tokens.insert(s.tokens.end(), tokens.begin() + static_cast<std::ptrdiff_t>(stored[i]), tokens.end());
            const auto added = s.tokens.size() - static_cast<std::size_t>(s.starts.back());
            s.starts.push_back(static_cast<std::int32_t>(s.tokens.size()));
            s.lengths.push_back(static_cast<std::int32_t>(stored[i] + added));
        }
        if (s.tokens.empty()) return so_far;
        const double begin = now(), attention = past.seconds;
        const std::vector<float> logits = of(s, past, drafting);
        (first ? so_far.prompt : so_far.generation) += now() - begin;
        (first ? so_far.prompt_attention : so_far.generation_attention) += past.seconds - attention;
        if (first) so_far.prompt_tokens = s.tokens.size();
        so_far.steps += first ? 0 : 1;

        // From the root of each tree down, as long as the likeliest token is a draft.
        auto rows = logits.begin();
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (all[i].done) continue;
            const std::size_t before = all[i].tokens.size() - 1;  // of the root
            for (std::int32_t draft = 0; draft >= 0 && !all[i].done;) {
                const auto row = rows + draft * vocabulary;
                const auto token = static_cast<std::int32_t>(std::max_element(row, row + vocabulary) - row);
                const std::int32_t level = trees[i].levels[static_cast<std::size_t>(draft)];
                if (level != draft)
                    past.move(static_cast<std::int64_t>(i), static_cast<std::int64_t>(before) + draft,
                              static_cast<std::int64_t>(before) + level);
                stored[i] = all[i].tokens.size();
                all[i].tokens.push_back(token);
                all[i].done = ends(token) || all[i].tokens.size() - all[i].prompt >= limit.tokens;
                so_far.generated_tokens += first ? 0 : 1;
                said(i, token);
                draft = trees[i].child(draft, token);
            }
            rows += static_cast<std::ptrdiff_t>(trees[i].tokens.size()) * vocabulary;
        }
    }
}

}  // namespace language_model
