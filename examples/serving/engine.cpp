#include "engine.hpp"

#include "step.hpp"

#include <algorithm>
#include <stdexcept>

namespace serving {

std::size_t request::most() const {
    std::size_t all = 0;
    for (const turn& each : turns) all += each.words.size() + each.answer;
    return all;
}

engine::engine(const decoder& model, int pages, int sequences)
    : model_(model),
      states_(model, sequences),
      users_(static_cast<std::size_t>(pages)),
      slots_(static_cast<std::size_t>(sequences)),
      steps_(static_cast<std::size_t>(model.layers()),
             std::vector<std::optional<attune::prepared_call>>(slots_.size())) {
    const std::size_t rows = users_.size() * key_heads * page_tokens;
    for (int layer = 0; layer < model.layers(); ++layer)
        k_.push_back(model.has_state(layer) ? pool{}
                                            : pool{std::vector<std::int8_t>(rows * depth), std::vector<float>(rows)});
    v_ = k_;
    for (int page = pages; page-- > 0;) free_.push_back(page);
    const std::size_t most_tokens = slots_.size() * part_tokens;
    rows_.q.resize(most_tokens * heads * depth), rows_.out.resize(rows_.q.size());
    rows_.k_new.resize(most_tokens * key_heads * depth), rows_.v_new.resize(rows_.k_new.size());
    rows_.table.resize(slots_.size() * most_blocks), rows_.lengths.resize(slots_.size());
    rows_.starts.resize(slots_.size() + 1);
}

std::size_t engine::running() const {
    return static_cast<std::size_t>(std::ranges::count_if(slots_, [](const auto& each) { return each.has_value(); }));
}

/// The call of a layer for all slots, with the queries that `starts` gives to each: `call` is attune::run or
/// attune::prepare.
auto engine::bound(int layer, auto call) {
    using namespace serving_step;
    const auto count = static_cast<std::int64_t>(slots_.size());
    const auto view = [&](std::vector<float>& rows, std::int64_t of) {  // stored (token, head, depth)
        return attune::tensor(rows.data(), {1, rows_.starts.back(), of, serving::depth}).swapped(1, 2);
    };
    const auto pages = static_cast<std::int64_t>(users_.size());
    const auto rows = [&](pool& of) {
        return attune::tensor(of.rows.data(), {pages, key_heads, page_tokens, serving::depth});
    };
    const auto scales = [&](pool& of) { return attune::tensor(of.scales.data(), {pages, key_heads, page_tokens}); };
    pool &keys = k_[static_cast<std::size_t>(layer)], &values = v_[static_cast<std::size_t>(layer)];
    return call(q = view(rows_.q, heads), k_new = view(rows_.k_new, key_heads), v_new = view(rows_.v_new, key_heads),
                k_pages = rows(keys), k_scale = scales(keys), v_pages = rows(values), v_scale = scales(values),
                slopes = attune::tensor(model_.of(layer, "slopes").data(), {heads}), out = view(rows_.out, heads),
                attune::dsl::kv_lengths = attune::tensor(rows_.lengths.data(), {count}),
                attune::dsl::cu_seqlens_q = attune::tensor(rows_.starts.data(), {count + 1}),
                block_table = attune::tensor(rows_.table.data(), {count, most_blocks}));
}

/// Of a step without prompts what decides is how many tokens there are: it is prepared when it is first made.
void engine::attend(int layer, bool is_prepared) {
    if (!is_prepared) return bound(layer, [](const auto&... given) { attune::run<serving_step::step>(given...); });
    auto& call = steps_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(rows_.starts.back() - 1)];
    if (!call) call = bound(layer, [](const auto&... given) { return attune::prepare<serving_step::step>(given...); });
    (*call)();
}

void engine::append(sequence& s, std::span<const float> logits) {
    request& of = *s.of;
    of.answers.push_back(of.tokens.size());
    of.logits.insert(of.logits.end(), logits.begin(), logits.end());
    of.tokens.push_back(sample(logits, std::uniform_real_distribution<double>(0, 1)(s.random)));
    ++numbers_.tokens, --s.answers;
}

/// The user's words, once the sequence has rested.
void engine::add(std::unique_ptr<request> what) {
    for (const turn& each : what->turns)
        if (each.answer == 0) throw std::invalid_argument("expected an answer of one token or more, got none");
    waiting_.push_back(std::move(what));
}

void engine::begin_turn(sequence& s) {
    const turn& next = s.of->turns[s.turn++];
    s.of->tokens.insert(s.of->tokens.end(), next.words.begin(), next.words.end());
    s.answers = next.answer;
}

/// The first waiting request, if there is room: pages of a prompt that begins alike are there already, up to a place
/// where the state was kept; for the rest of it and for all that may be said there are new ones.
bool engine::admit() {
    const auto slot = std::ranges::find_if(slots_, [](const auto& each) { return !each.has_value(); });
    if (waiting_.empty() || slot == slots_.end()) return false;
    const request& next = *waiting_.front();
    const auto blocks = (next.most() + page_tokens - 1) / page_tokens;
    if (blocks > most_blocks)
        throw std::invalid_argument("expected at most 256 tokens a request; try a shorter prompt");
    const std::vector<int>& words = next.turns.front().words;
    std::vector<int> pages;
    std::size_t shared = 0;
    std::span<const float> state;
    while ((pages.size() + 1) * page_tokens < words.size()) {  // the last token is computed: an answer is asked for
        const auto end = words.begin() + static_cast<std::ptrdiff_t>((pages.size() + 1) * page_tokens);
        const auto found = known_.find({words.begin(), end});
        if (found == known_.end()) break;
        pages.push_back(found->second.page);
        if (found->second.state.empty() && states_.any()) continue;
        shared = pages.size(), state = found->second.state;
    }
    if (free_.size() < blocks - shared) return false;
    pages.resize(shared);
    for (; pages.size() < blocks; free_.pop_back()) pages.push_back(free_.back());
    for (const int page : pages) ++users_[static_cast<std::size_t>(page)];
    numbers_.shared_pages += shared, numbers_.kept_states += !state.empty();
    numbers_.most_pages = std::max(numbers_.most_pages, users_.size() - free_.size());
    const auto at = slot - slots_.begin();
    states_.begin(static_cast<std::size_t>(at), state);
    std::ranges::copy(pages, rows_.table.begin() + at * most_blocks);
    const unsigned seed = next.seed;
    slot->emplace(std::move(waiting_.front()), std::move(pages), std::minstd_rand(seed), shared * page_tokens);
    waiting_.erase(waiting_.begin());
    begin_turn(**slot);
    return true;
}

/// What follows the last token is not read before the words after it; parts end where states are kept.
std::size_t engine::tokens_of_step(const sequence& s) const {
    if (s.rest > 0) return 0;
    return std::min(s.of->tokens.size() - s.cached, part_tokens - s.cached % part_tokens);
}

/// Full pages of the prompt, for those that begin alike; at the end of a part also the state.
void engine::keep(std::size_t slot, std::size_t before) {
    const sequence& s = *slots_[slot];
    const std::vector<int>& words = s.of->turns.front().words;
    for (std::size_t page = before / page_tokens; (page + 1) * page_tokens <= std::min(s.cached, words.size());
         ++page) {
        const std::size_t end = (page + 1) * page_tokens;
        known_page made{s.pages[page], {}};
        if (end == s.cached && end % part_tokens == 0) made.state = states_.kept(slot);
        known_.try_emplace({words.begin(), words.begin() + static_cast<std::ptrdiff_t>(end)}, std::move(made));
    }
}

/// Sequences that have said all give their pages back; others rest until their user goes on.
void engine::retire() {
    for (std::optional<sequence>& slot : slots_) {
        if (!slot || slot->answers > 0) continue;
        if (slot->rest > 0) {
            if (--slot->rest == 0) begin_turn(*slot);
        } else if (slot->turn < slot->of->turns.size()) {
            slot->rest = slot->of->turns[slot->turn].rest;
            if (slot->rest == 0) begin_turn(*slot);
        } else {
            for (const int page : slot->pages) {
                if (--users_[static_cast<std::size_t>(page)] > 0) continue;
                std::erase_if(known_, [&](const auto& each) { return each.second.page == page; });
                free_.push_back(page);
            }
            ++numbers_.done;
            done_.push_back(std::move(slot->of));
            slot.reset();
        }
    }
}

bool engine::step() {
    while (admit()) {
    }
    if (running() == 0)
        return !waiting_.empty() ? throw std::invalid_argument("expected room for a request; try more pages") : false;
    std::vector<int> tokens;
    bool are_single = true;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
        std::size_t count = 0;
        rows_.lengths[slot] = 0;
        if (slots_[slot]) {
            sequence& s = *slots_[slot];
            count = tokens_of_step(s);
            const auto from = s.of->tokens.begin() + static_cast<std::ptrdiff_t>(s.cached);
            tokens.insert(tokens.end(), from, from + static_cast<std::ptrdiff_t>(count));
            s.cached += count;
            rows_.lengths[slot] = static_cast<std::int32_t>(s.cached);
        }
        are_single = are_single && count <= 1;
        rows_.starts[slot + 1] = static_cast<std::int32_t>(tokens.size());
    }
    if (!tokens.empty()) {
        const auto logits = model_(
            tokens,
            [&](int layer, auto q, auto k, auto v, auto out) {
                std::ranges::copy(q, rows_.q.begin());
                std::ranges::copy(k, rows_.k_new.begin()), std::ranges::copy(v, rows_.v_new.begin());
                attend(layer, are_single);
                std::copy_n(rows_.out.begin(), out.size(), out.begin());
            },
            [&](int layer, const state_rows& rows, auto out) { states_.run(layer, rows, rows_.starts, out); });
        for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
            const auto end = static_cast<std::size_t>(rows_.starts[slot + 1]),
                       count = end - static_cast<std::size_t>(rows_.starts[slot]);
            if (count == 0) continue;
            sequence& s = *slots_[slot];
            keep(slot, s.cached - count);
            if (s.cached == s.of->tokens.size())  // of what follows the last token
                append(s, std::span(logits).subspan((end - 1) * vocabulary, vocabulary));
        }
        ++numbers_.steps;
    }
    retire();
    return true;
}

}  // namespace serving
