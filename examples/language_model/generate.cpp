#include "generate.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace language_model {
namespace {
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
}  // namespace

spent generate(const model& of, cache& past, std::span<sequence> all, std::size_t most,
               const std::function<bool(std::int32_t token)>& ends,
               const std::function<void(std::size_t sequence, std::int32_t token)>& said) {
    for (const sequence& each : all)
        if (each.tokens.empty() || each.tokens.size() + most > static_cast<std::size_t>(past.slots))
            throw std::invalid_argument("expected prompts of 1 to " + std::to_string(past.slots) + " tokens with " +
                                        std::to_string(most) + " to say, got " + std::to_string(each.tokens.size()));
    const auto vocabulary = of.shape().vocabulary;
    std::vector<std::size_t> stored(all.size());  // tokens whose keys and values are in the cache
    spent so_far;
    for (bool first = true;; first = false) {
        step s{{}, {0}, {}};
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (!all[i].done) {
                s.tokens.insert(s.tokens.end(), all[i].tokens.begin() + static_cast<std::ptrdiff_t>(stored[i]),
                                all[i].tokens.end());
                stored[i] = all[i].tokens.size();
            }
            s.starts.push_back(static_cast<std::int32_t>(s.tokens.size()));
            s.lengths.push_back(static_cast<std::int32_t>(stored[i]));
        }
        if (s.tokens.empty()) return so_far;
        const double begin = now(), attention = past.seconds;
        const std::vector<float> logits = of(s, past);
        (first ? so_far.prompt : so_far.generation) += now() - begin;
        (first ? so_far.prompt_attention : so_far.generation_attention) += past.seconds - attention;
        (first ? so_far.prompt_tokens : so_far.generated_tokens) += s.tokens.size();
        ++so_far.steps;
        auto row = logits.begin();
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (all[i].done) continue;
            const auto token = static_cast<std::int32_t>(std::max_element(row, row + vocabulary) - row);
            row += vocabulary;
            all[i].tokens.push_back(token);
            all[i].done = ends(token) || all[i].tokens.size() - all[i].prompt >= most;
            said(i, token);
        }
    }
}

}  // namespace language_model
