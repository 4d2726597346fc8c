#include "drafts.hpp"

#include <algorithm>

namespace language_model {

std::int32_t draft_tree::child(std::int32_t parent, std::int32_t token) const {
    for (std::size_t i = 0; i < tokens.size(); ++i)
        if (parents[i] == parent && tokens[i] == token) return static_cast<std::int32_t>(i);
    return -1;
}

std::int32_t draft_tree::grow(std::int32_t parent, std::int32_t token) {
    if (const std::int32_t found = child(parent, token); found >= 0) return found;
    tokens.push_back(token), parents.push_back(parent);
    levels.push_back(levels[static_cast<std::size_t>(parent)] + 1);
    return static_cast<std::int32_t>(tokens.size()) - 1;
}

bool draft_tree::sees(std::int32_t draft, std::int32_t other) const {
    while (draft > other) draft = parents[static_cast<std::size_t>(draft)];
    return draft == other;
}

draft_tree look_up(std::span<const std::int32_t> text, std::size_t most, std::int32_t longest) {
    draft_tree found(text.back());
    constexpr std::size_t longest_match = 4;
    for (std::size_t match = std::min(longest_match, text.size() - 1); match > 0; --match) {
        const auto last = text.last(match);
        for (std::size_t end = text.size() - 1; end >= match; --end) {  // an earlier place of them, which ends there
            if (!std::ranges::equal(text.subspan(end - match, match), last)) continue;
            std::int32_t at = 0;
            for (const std::int32_t token : text.subspan(end)) {
                const bool full = found.tokens.size() > most && found.child(at, token) < 0;
                if (full || found.levels[static_cast<std::size_t>(at)] == longest) break;
                at = found.grow(at, token);
            }
        }
    }
    return found;
}

}  // namespace language_model
