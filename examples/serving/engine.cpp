#include "engine.hpp"

#include "step.hpp"

#include <algorithm>
#include <stdexcept>

namespace serving {

engine::engine(const decoder& model, int pages, int sequences)
    : model_(model),
      users_(static_cast<std::size_t>(pages)),
      most_running_(static_cast<std::size_t>(sequences)),
      table_(most_running_ * most_blocks),
      lengths_(most_running_),
      starts_(most_running_ + 1),
      steps_(layers, std::vector<std::optional<attune::prepared_call>>(most_running_)) {
    const std::size_t rows = users_.size() * key_heads * page_tokens;
    k_.assign(layers, {std::vector<std::int8_t>(rows * depth), std::vector<float>(rows)}), v_ = k_;
    for (int page = pages; page-- > 0;) free_.push_back(page);
    const std::size_t most_tokens = most_running_ + most_blocks * page_tokens;
    q_.resize(most_tokens * heads * depth), out_.resize(q_.size());
    k_new_.resize(most_tokens * key_heads * depth), v_new_.resize(k_new_.size());
}

/// The call of a layer for the sequences that run, with the queries that `starts_` gives to each: `call` is attune::run
/// or attune::prepare.
auto engine::bound(int layer, auto call) {
    using namespace serving_step;
    const auto count = static_cast<std::int64_t>(running_.size());
    const auto view = [&](std::vector<float>& rows, std::int64_t of) {  // stored (token, head, depth)
        return attune::tensor(rows.data(), {1, starts_[running_.size()], of, serving::depth}).swapped(1, 2);
    };
    const auto pages = static_cast<std::int64_t>(users_.size());
    const auto rows = [&](pool& of) {
        return attune::tensor(of.rows.data(), {pages, key_heads, page_tokens, serving::depth});
    };
    const auto scales = [&](pool& of) { return attune::tensor(of.scales.data(), {pages, key_heads, page_tokens}); };
    pool &keys = k_[static_cast<std::size_t>(layer)], &values = v_[static_cast<std::size_t>(layer)];
    return call(q = view(q_, heads), k_new = view(k_new_, key_heads), v_new = view(v_new_, key_heads),
                k_pages = rows(keys), k_scale = scales(keys), v_pages = rows(values), v_scale = scales(values),
                slopes = attune::tensor(model_.slopes(layer).data(), {heads}), out = view(out_, heads),
                attune::dsl::kv_lengths = attune::tensor(lengths_.data(), {count}),
                attune::dsl::cu_seqlens_q = attune::tensor(starts_.data(), {count + 1}),
                block_table = attune::tensor(table_.data(), {count, most_blocks}));
}

/// Of a step without prompts what decides is how many sequences there are: it is prepared when it is first made.
void engine::attend(int layer) {
    const std::size_t count = running_.size();
    if (static_cast<std::size_t>(starts_[count]) != count)
        return bound(layer, [](const auto&... given) { attune::run<serving_step::step>(given...); });
    auto& call = steps_[static_cast<std::size_t>(layer)][count - 1];
    if (!call) call = bound(layer, [](const auto&... given) { return attune::prepare<serving_step::step>(given...); });
    (*call)();
}

/// What follows these tokens, whose keys and values each layer's call stores.
std::vector<float> engine::logits_after(std::span<const int> tokens, const std::function<void(int layer)>& attend) {
    return model_(tokens, [&](int layer, auto q, auto k, auto v, auto out) {
        std::ranges::copy(q, q_.begin()), std::ranges::copy(k, k_new_.begin()), std::ranges::copy(v, v_new_.begin());
        attend(layer);
        std::copy_n(out_.begin(), out.size(), out.begin());
    });
}

void engine::append(std::size_t slot, std::span<const float> logits) {
    sequence& s = running_[slot];
    s.of->tokens.push_back(sample(logits, std::uniform_real_distribution<double>(0, 1)(s.random)));
    ++numbers_.tokens;
}

void engine::write_table(std::size_t slot) {
    std::ranges::copy(running_[slot].pages, table_.begin() + static_cast<std::ptrdiff_t>(slot * most_blocks));
}

/// The first waiting request, if there is room and no more than `room` tokens of its prompt are left to read: pages of
/// a prompt that begins alike are there already, or will be in this step; for the rest of it and for all that may be
/// said there are new ones.
bool engine::admit(std::size_t room) {
    if (waiting_.empty() || running_.size() == most_running_) return false;
    const request& next = *waiting_.front();
    const auto blocks = static_cast<std::size_t>((next.most + page_tokens - 1) / page_tokens);
    if (blocks > most_blocks)
        throw std::invalid_argument("expected at most 256 tokens a request; try a shorter prompt");
    std::vector<int> pages;
    const auto end_of = [&](std::size_t page) {
        return next.tokens.begin() + static_cast<std::ptrdiff_t>((page + 1) * page_tokens);
    };
    while ((pages.size() + 1) * page_tokens <
           next.prompt) {  // the last token is computed: what follows it is asked for
        const auto found = known_.find({next.tokens.begin(), end_of(pages.size())});
        if (found == known_.end()) break;
        pages.push_back(found->second);
    }
    const std::size_t shared = pages.size();
    if (free_.size() < blocks - shared || next.prompt - shared * page_tokens > room) return false;
    for (; pages.size() < blocks; free_.pop_back()) pages.push_back(free_.back());
    for (const int page : pages) ++users_[static_cast<std::size_t>(page)];
    numbers_.shared_pages += shared;
    numbers_.most_pages = std::max(numbers_.most_pages, users_.size() - free_.size());
    for (std::size_t page = shared; (page + 1) * page_tokens <= next.prompt; ++page)
        known_.emplace(std::vector<int>(next.tokens.begin(), end_of(page)), pages[page]);
    const unsigned seed = next.seed;
    running_.push_back({std::move(waiting_.front()), std::move(pages), std::minstd_rand(seed), shared * page_tokens});
    waiting_.erase(waiting_.begin());
    write_table(running_.size() - 1);
    return true;
}

/// Sequences that have said all give their pages back, and the last one takes their slot.
void engine::retire() {
    for (std::size_t slot = running_.size(); slot-- > 0;) {
        sequence& s = running_[slot];
        if (s.of->tokens.size() < s.of->most) continue;
        for (const int page : s.pages) {
            if (--users_[static_cast<std::size_t>(page)] > 0) continue;
            std::erase_if(known_, [&](const auto& each) { return each.second == page; });
            free_.push_back(page);
        }
        ++numbers_.done;
        done_.push_back(std::move(s.of));
        if (slot + 1 < running_.size()) s = std::move(running_.back()), write_table(slot);
        running_.pop_back();
    }
}

bool engine::step() {
    const std::size_t room = most_blocks * page_tokens;  // for prompts
    for (std::size_t read = 0; admit(room - read);) read += running_.back().of->prompt - running_.back().cached;
    const std::size_t count = running_.size();
    if (count == 0)
        return !waiting_.empty() ? throw std::invalid_argument("expected room for a request; try more pages") : false;
    std::vector<int> tokens;
    for (std::size_t slot = 0; slot < count; ++slot) {
        const std::vector<int>& all = running_[slot].of->tokens;
        tokens.insert(tokens.end(), all.begin() + static_cast<std::ptrdiff_t>(running_[slot].cached), all.end());
        running_[slot].cached = all.size();
        lengths_[slot] = static_cast<std::int32_t>(all.size());
        starts_[slot + 1] = static_cast<std::int32_t>(tokens.size());
    }
    const auto logits = logits_after(tokens, [&](int layer) { attend(layer); });
    for (std::size_t slot = 0; slot < count; ++slot)  // of what follows the last token of each
        append(slot,
               std::span(logits).subspan(static_cast<std::size_t>(starts_[slot + 1] - 1) * vocabulary, vocabulary));
    ++numbers_.steps;
    retire();
    return true;
}

}  // namespace serving
