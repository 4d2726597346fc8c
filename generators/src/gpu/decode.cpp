#include "gpu/decode.hpp"

#include "expr/math.hpp"
#include "kernel/gpu_schedule.hpp"
#include "passes/gpu_passes.hpp"
#include "passes/skip_blocks.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace attune::generators {
using namespace Halide;

namespace {

/// Into how many shares `keys` are cut: as many as there are threads, of the same length each.
int shares_of(int keys, int threads) {
    int shares = std::clamp(threads, 1, keys);
    while (keys % shares != 0) --shares;
    return shares;
}

int rounded_up(int a, int b) { return (a + b - 1) / b; }

Expr joined(std::vector<Expr> all, const std::function<Expr(const Expr&, const Expr&)>& join) {
    while (all.size() > 1) {
        std::vector<Expr> half;
        for (std::size_t i = 0; i + 1 < all.size(); i += 2) half.push_back(join(all[i], all[i + 1]));
        if (all.size() % 2 != 0) half.push_back(all.back());
        all = std::move(half);
    }
    return all.front();
}

}  // namespace

gpu_decode_state::gpu_decode_state(const kernel_frame& frame)
    : f_(frame),
      cut_(frame.schedule_as<gpu_decode>()),
      scores_at_(frame, "", score_tile::lanes::channels),
      rows_(cut_.query_tile),
      keys_(frame.cut.key_block),
      chunk_(frame.core.weights < 0 ? 0 : cut_.chunk),
      across_(chunk_ ? rounded_up(frame.value_depth(), chunk_) : 1),
      down_(cut_.key_block / cut_.key_tile),
      shares_(chunk_ ? shares_of(keys_, down_ / rounded_up(across_, gpu_threads_a_key)) : 1),
      splits_(clamp(frame.inputs.key_splits, 1, cut_.key_splits)) {
    scores_(scores_at_.pair()) = choose_whole(scores_at_.masked, lowest, scores_at_.real);
    define_ranges();
    define_weights();
    define_state();
    define_splits();
    define_merge();
}

/// A part is a stretch of the blocks between the first and the last of which some row of the key head sees something,
/// so that what a mask or a length leaves is shared out. Each task finds them for itself, a few threads going over all
/// blocks in turn.
void gpu_decode_state::define_ranges() {
    // Algorithm
    const Expr visible = cast<uint8_t>(f_.visible(f_.core.scores).may), zero = cast<uint8_t>(0),
               blocks = f_.key_blocks();
    const std::vector<Var> block{f_.kb, f_.qt, f_.h, f_.b};
    if (Internal::expr_uses_var(visible, f_.h.name())) {
        const RDom head(0, f_.group(), "head_of_group");
        seen_(block) = zero;
        seen_(block) = max(seen_(block),
                           substitute(f_.h.name(), clamp(f_.h * f_.group() + head, 0, f_.inputs.heads - 1), visible));
    } else {
        seen_(block) = visible;
    }
    const Expr stacked = f_.queries_stacked();
    every_ = RDom({{0, (blocks + warp - 1) / warp}, {0, max((f_.inputs.query_length + stacked - 1) / stacked, 1)}},
                  "every_block");
    const Expr at = every_.x * warp + l_, counts = at < blocks && seen_(at, every_.y, f_.h, f_.b) != zero;
    const std::vector<Var> of_thread{l_, f_.h, f_.b};
    span_of_thread_(of_thread) = Tuple(blocks, 0);
    const FuncRef so_far = span_of_thread_(of_thread);
    span_of_thread_(of_thread) =
        Tuple(select(counts, min(so_far[0], at), so_far[0]), select(counts, at + 1, so_far[1]));
    spans_(of_thread) = Tuple(so_far[0], so_far[1]);
    std::vector<Expr> firsts, ends;
    for (int l = 0; l < warp; ++l) firsts.push_back(spans_(l, f_.h, f_.b)[0]), ends.push_back(spans_(l, f_.h, f_.b)[1]);
    const Expr first = joined(firsts, [](const Expr& a, const Expr& b) { return min(a, b); }),
               end = joined(ends, [](const Expr& a, const Expr& b) { return max(a, b); });
    span_(f_.h, f_.b) = Tuple(first, max(end - first, 0));
    const FuncRef span = span_(f_.h, f_.b);
    range_(sp_, f_.h, f_.b) = Tuple(span[0] + span[1] * sp_ / splits_, span[0] + span[1] * (sp_ + 1) / splits_);
    const FuncRef range = range_(sp_, f_.h, f_.b);
    kinds_of_split_(f_.kb, sp_, f_.qt, f_.h, f_.b) = select(range[0] <= f_.kb && f_.kb < range[1], seen_(block), zero);
}

/// A row's maximum or sum over the keys of a block: of every sixteenth key first, then of all.
Func gpu_decode_state::reduced(const std::string& name, const Func& pairs, bool maximum) {
    // Algorithm
    const auto join = [&](const Expr& a, const Expr& b) { return maximum ? max(a, b) : a + b; };
    const std::vector<Var> row{f_.qi, f_.kb, f_.qt, f_.h, f_.b}, of_lane{l_, f_.qi, f_.kb, f_.qt, f_.h, f_.b};
    const int threads = std::gcd(keys_, lanes);
    Func each(name + "_lanes"), all(name);
    std::vector<Expr> terms;
    for (int i = 0; i < keys_; i += threads) terms.push_back(pairs(score_tile::pair_of(f_, i + l_, f_.qi)));
    const Expr of_keys = joined(terms, join);
    each(of_lane) = maximum && softmax() ? max(of_keys, lowest_score) : of_keys;
    std::vector<Expr> of_threads;
    for (int l = 0; l < threads; ++l) of_threads.push_back(each(l, f_.qi, f_.kb, f_.qt, f_.h, f_.b));
    all(row) = joined(of_threads, join);
    lane_sums_.push_back(each);
    return all;
}

void gpu_decode_state::define_weights() {
    // Algorithm
    const Func weighing = define_weights_of_block(
        f_, scores_at_, softmax(), {scores_, highest_, weights_, sum_},
        [this](const std::string& name, const Func& pairs, bool maximum) { return reduced(name, pairs, maximum); });
    if (!chunk_) return;
    values_ = scores_at_.rows_of(f_.core.value, false, "values");
    rk_ = RDom(0, keys_ / shares_, "rk");
    // (of a thread's depths, thread, row, share of the keys, key block, query block, key head, batch); beyond the last
    // key stands 0, whatever that one's values are
    const std::vector<Var> at{j_, dt_, f_.qi, g_, f_.kb, f_.qt, f_.h, f_.b};
    const Expr key = g_ * (keys_ / shares_) + rk_, depth = min(j_ * across_ + dt_, f_.value_depth() - 1);
    const Expr value =
        select(f_.key_at(key) < f_.inputs.keys_in_use(f_.b), values_(depth, key, f_.kb, f_.h, f_.b), 0.0f);
    accumulated_(at) = 0.0f;
    accumulated_(at) += weighing(score_tile::pair_of(f_, key, f_.qi)) * value;
}

Expr gpu_decode_state::old(int i) const {
    const FuncRef ref = state_(dt_, f_.qi, g_, sp_, f_.qt, f_.h, f_.b);
    return state_.outputs() == 1 ? Expr(ref) : Expr(ref[i]);
}

void gpu_decode_state::define_state() {
    // Algorithm
    const Expr blocks = f_.key_blocks(), from = range_(sp_, f_.h, f_.b)[0], to = range_(sp_, f_.h, f_.b)[1];
    blocks_ = RDom({{0, looked_at_once}, {0, (blocks + looked_at_once - 1) / looked_at_once}}, "blocks");
    const Expr block = blocks_.y * looked_at_once + blocks_.x;
    blocks_.where(blocks_.y >= from / looked_at_once);
    blocks_.where(blocks_.y < (to + looked_at_once - 1) / looked_at_once);
    blocks_.where(kinds_of_split_(block, sp_, f_.qt, f_.h, f_.b) != cast<uint8_t>(0));
    // (thread, row, share of the keys, part, query block, key head, batch): a thread's accumulators, and in every
    // thread the row's maximum, sum, other sums
    std::vector<Expr> initial(static_cast<std::size_t>(chunk_), 0.0f), next;
    const auto place = [&](const Expr& value) {
        initial.push_back(value);
        return extras_++;
    };
    if (softmax() || f_.core.maximum) maximum_at_ = place(softmax() ? lowest_score : lowest);
    if (softmax()) sum_at_ = place(0.0f);
    for (const auto& [node, sum] : row_sums_) summed_at_[node] = place(0.0f);
    const std::vector<Var> at{dt_, f_.qi, g_, sp_, f_.qt, f_.h, f_.b};
    state_(at) = Tuple(initial);
    const auto of_block = [&](const Func& f) { return f(f_.qi, block, f_.qt, f_.h, f_.b); };
    std::function<Expr(const Expr&, const Expr&)> join = [](const Expr& before, const Expr& here) {
        return before + here;
    };
    if (softmax()) {
        const Expr before = old(chunk_ + maximum_at_), here = of_block(highest_);
        // Of the two factors one is 1.
        const Expr factor = exp2_of_nonpositive(-abs(before - here) * (scores_at_.scale * log2_of_e));
        const Expr keep = select(before >= here, 1.0f, factor), take = select(here >= before, 1.0f, factor);
        join = [keep, take](const Expr& x, const Expr& y) { return x * keep + y * take; };
    }
    for (int j = 0; j < chunk_; ++j)
        next.push_back(join(old(j), accumulated_(j, dt_, f_.qi, g_, block, f_.qt, f_.h, f_.b)));
    if (maximum_at_ >= 0) next.push_back(max(old(chunk_ + maximum_at_), of_block(highest_)));
    if (sum_at_ >= 0) next.push_back(join(old(chunk_ + sum_at_), of_block(sum_)));
    for (const auto& [node, sum] : row_sums_) next.push_back(join(old(chunk_ + summed_at_[node]), of_block(sum)));
    // What was computed before the loop is used once more at its end, to no effect: as in prefill_state::define_state.
    Expr before_loop = scores_at_.of_query(f_.qi) +
                       cast<float>(from + to + f_.query_of_row(f_.qi, f_.qt) + f_.head_of_row(f_.qi, f_.h));
    for (const score_tile::contraction& c : scores_at_.contractions_)
        before_loop = before_loop + c.query_rows(0, f_.qi, f_.qt, f_.h, f_.b);
    next[0] = next[0] + select(old(0) > std::numeric_limits<float>::max(), before_loop, 0.0f);
    state_(at) = Tuple(next);
}

/// What a task leaves of each row: (value depths and then the other numbers, row, part, query block, key head, batch).
void gpu_decode_state::define_splits() {
    // Algorithm
    const std::vector<Var> at{dt_, f_.qi, g_, sp_, f_.qt, f_.h, f_.b};
    const std::vector<Expr> of_row{0, f_.qi, 0, sp_, f_.qt, f_.h, f_.b};
    std::vector<Expr> sums, others;
    for (int j = 0; j < chunk_; ++j) sums.push_back(old(j));
    for (int i = 0; i < extras_; ++i) others.push_back(old(chunk_ + i));
    const auto element = [](const Func& f, const std::vector<Expr>& where, int i) {
        return f.outputs() == 1 ? Expr(f(where)) : Expr(f(where)[i]);
    };
    const auto chosen = [](const Expr& which, const std::vector<Expr>& all) {
        return all.size() == 1 ? all.front() : mux(which, all);
    };
    Expr number;
    if (extras_ > 0) {
        left_of_rows_(at) = Tuple(others);
        std::vector<Expr> all;
        for (int i = 0; i < extras_; ++i) all.push_back(element(left_of_rows_, of_row, i));
        number = chosen(x_ - (chunk_ ? f_.value_depth() : 0), all);
    }
    if (chunk_) {
        left_(at) = Tuple(sums);
        std::vector<Expr> all;
        for (int j = 0; j < chunk_; ++j) {
            std::vector<Expr> of_shares;
            for (int g = 0; g < shares_; ++g)
                of_shares.push_back(element(left_, {x_ % across_, f_.qi, g, sp_, f_.qt, f_.h, f_.b}, j));
            all.push_back(joined(of_shares, [](const Expr& a, const Expr& b) { return a + b; }));
        }
        const Expr accumulated = chosen(x_ / across_, all);
        number = number.defined() ? select(x_ < f_.value_depth(), accumulated, number) : accumulated;
    }
    partial_(x_, f_.qi, sp_, f_.qt, f_.h, f_.b) = number;
}

Expr gpu_decode_state::part(const Expr& x, const Expr& split, const std::vector<Expr>& row) const {
    const Expr query = row[0] + row[1], stacked = f_.queries_stacked(),
               blocks = (f_.inputs.query_length + stacked - 1) / stacked;
    return partial_(x, clamp(row[2] % f_.group() * stacked + query % stacked, 0, f_.rows() - 1),
                    min(split, splits_ - 1), clamp(query / stacked, 0, max(blocks, 1) - 1),
                    clamp(row[2] / f_.group(), 0, f_.inputs.key_heads - 1), row[3]);
}

void gpu_decode_state::define_merge() {
    // Algorithm
    const std::vector<Var> row{f_.qi, f_.qt, f_.h, f_.b};
    const std::vector<Expr> of_row(row.begin(), row.end());
    const auto with = [&](const Var& first) { return std::vector<Var>{first, f_.qi, f_.qt, f_.h, f_.b}; };
    const auto at = [&](const Expr& first) { return std::vector<Expr>{first, f_.qi, f_.qt, f_.h, f_.b}; };
    const int first_extra = chunk_ ? f_.value_depth() : 0;
    const auto higher = [](const Expr& a, const Expr& b) { return max(a, b); };
    if (maximum_at_ >= 0) {
        std::vector<Expr> of_thread, of_all;
        for (int i = 0; i < cut_.key_splits; i += warp)
            of_thread.push_back(select(i + l_ < splits_, part(first_extra + maximum_at_, i + l_, of_row),
                                       softmax() ? lowest_score : lowest));
        tops_(with(l_)) = joined(of_thread, higher);
        for (int l = 0; l < warp; ++l) of_all.push_back(tops_(at(l)));
        top_(row) = joined(of_all, higher);
    }
    if (softmax())
        factor_(with(sp_)) = exp2_of_nonpositive((part(first_extra + maximum_at_, sp_, of_row) - top_(row)) *
                                                 (scores_at_.scale * log2_of_e));
    constexpr int together = mergers * merged_at_once;
    merged_splits_ = RDom({{0, merged_at_once}, {0, (splits_ + together - 1) / together}}, "parts");
    const Expr split = (merged_splits_.y * merged_at_once + merged_splits_.x) * mergers + g_;
    Expr value = part(x_, split, of_row);
    if (softmax()) value = value * factor_(at(clamp(split, 0, cut_.key_splits - 1)));
    const std::vector<Var> each{x_, g_, f_.qi, f_.qt, f_.h, f_.b};
    merging_(each) = 0.0f;
    merging_(each) += select(split < splits_, value, 0.0f);
    merged_(each) = merging_(each);
}

Expr gpu_decode_state::merged(const Expr& x, const std::vector<Expr>& row) const {
    std::vector<Expr> all;
    for (int g = 0; g < mergers; ++g) all.push_back(merged_(x, g, row[0], row[1], row[2], row[3]));
    return joined(all, [](const Expr& a, const Expr& b) { return a + b; });
}

Expr gpu_decode_state::maximum(const std::vector<Expr>& row) const { return top_(row); }
Expr gpu_decode_state::sum(const std::vector<Expr>& row) const {
    return merged((chunk_ ? f_.value_depth() : 0) + sum_at_, row);
}
Expr gpu_decode_state::summed(int weights, const std::vector<Expr>& row) const {
    return weights == f_.core.statistic_node && softmax()
               ? sum(row)
               : merged((chunk_ ? f_.value_depth() : 0) + summed_at_.at(weights), row);
}
Expr gpu_decode_state::accumulated(const std::vector<Expr>& row, const Expr& d) const { return merged(d, row); }

}  // namespace attune::generators
