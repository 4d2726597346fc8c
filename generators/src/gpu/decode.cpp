#include "gpu/decode.hpp"

#include "expr/joined.hpp"
#include "expr/math.hpp"
#include "kernel/gpu_schedule.hpp"
#include "stages/kept_number.hpp"
#include "stages/masked_values.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace attune::generators::inline gpu {
using namespace Halide;

namespace {

/// The number of equal shares into which `keys` are cut: at most one a thread.
int shares_of(int keys, int threads) {
    int shares = std::clamp(threads, 1, keys);
    while (keys % shares != 0) --shares;
    return shares;
}

int rounded_up(int a, int b) { return (a + b - 1) / b; }

}  // namespace

gpu_decode_state::gpu_decode_state(kernel_frame& frame)
    : f_(frame),
      cut_(frame.schedule_as<gpu_decode>()),
      chunk_(frame.keys().values ? frame.keys().values->chunk : 0),
      scores_at(frame, "", frame.keys().scores),
      rows(cut_.query_tile),
      keys(cut_.key_block),
      across(chunk_ ? rounded_up(frame.value_depth(), chunk_) : 1),
      down(cut_.key_block / cut_.key_tile),
      shares(chunk_ ? shares_of(keys, down / rounded_up(across, gpu_threads_a_key)) : 1),
      seen(seen_of(frame)),
      ranges(frame, seen) {
    scores(scores_at.pair()) = choose_whole(scores_at.masked, lowest, scores_at.real);
    define_weights();
    define_state();
    define_splits();
    merged.emplace(f_,
                   merged_splits::left_numbers{.of_splits = partial,
                                               .count = split_size(),
                                               .maximum_at = layout.maximum_at >= 0 ? place_of(layout.maximum_at) : -1,
                                               .splits = ranges.splits},
                   scores_at.scale);
}

/// Whether some row of a key head sees a key: (key block, query block, key head, batch).
Func gpu_decode_state::seen_of(kernel_frame& f) {
    // Algorithm
    Func seen("seen");
    const Expr visible = cast<uint8_t>(f.visible(f.core.scores).may);
    const std::vector<Var> block{f.kb, f.qt, f.h, f.b};
    if (!Internal::expr_uses_var(visible, f.h.name())) {
        seen(block) = visible;
        return seen;
    }
    const RDom head_of_group(0, f.group(), "head_of_group");
    seen(block) = cast<uint8_t>(0);
    seen(block) = max(
        seen(block),
        Internal::graph_substitute(f.h.name(), clamp(f.h * f.group() + head_of_group, 0, f.inputs.heads - 1), visible));
    return seen;
}

/// A row's maximum or sum over the keys of a block: first those of every sixteenth key, then that of all.
Func gpu_decode_state::reduced(const std::string& name, const Func& of_pairs, bool maximum) {
    // Algorithm
    const auto join = [&](const Expr& a, const Expr& b) { return maximum ? max(a, b) : a + b; };
    const std::vector<Var> row{f_.qi, f_.kb, f_.qt, f_.h, f_.b}, of_lane{l, f_.qi, f_.kb, f_.qt, f_.h, f_.b};
    const int threads = std::gcd(keys, lanes);
    Func lanes(name + "_lanes"), all(name);
    std::vector<Expr> terms;
    for (int i = 0; i < keys; i += threads) terms.push_back(of_pairs(score_tile::pair_of(f_, i + l, f_.qi)));
    const Expr of_keys = joined(terms, join);
    lanes(of_lane) = maximum && is_softmax(f_.core) ? max(of_keys, lowest_score) : of_keys;
    std::vector<Expr> of_threads;
    for (int t = 0; t < threads; ++t) of_threads.push_back(lanes(t, f_.qi, f_.kb, f_.qt, f_.h, f_.b));
    all(row) = joined(of_threads, join);
    lane_sums.push_back(lanes);
    return all;
}

void gpu_decode_state::define_weights() {
    // Algorithm
    weights =
        weights_of_block(f_, scores_at, scores, [this](const std::string& name, const Func& of_pairs, bool maximum) {
            return reduced(name, of_pairs, maximum);
        });
    if (!chunk_) return;
    values = scores_at.rows_of(f_.core.value, false, "values");
    rk = RDom(0, keys / shares, "rk");
    const std::vector<Var> at{j, dt, f_.qi, g, f_.kb, f_.qt, f_.h, f_.b};
    const Expr key = g * (keys / shares) + rk, depth = min(j * across + dt, f_.value_depth() - 1);
    // Beyond the last key stands 0, whatever the last key's values are.
    const Expr value =
        select(f_.key_at(key) < f_.inputs.keys_in_use(f_.b), values(depth, key, f_.kb, f_.h, f_.b), 0.0f);
    accumulated(at) = 0.0f;
    const Expr weight = weights.weighing(score_tile::pair_of(f_, key, f_.qi));
    accumulated(at) +=
        weight *
        (f_.keys().values->check == value_check::each_pair ? masked_values::unless_masked(weight, value) : value);
}

Expr gpu_decode_state::old(int i) const { return number_at(state(dt, f_.qi, g, sp, f_.qt, f_.h, f_.b), i); }

void gpu_decode_state::define_state() {
    // Algorithm
    const Expr all_blocks = f_.key_blocks(), from = ranges.range(sp, f_.h, f_.b)[0],
               to = ranges.range(sp, f_.h, f_.b)[1];
    blocks = RDom({{0, looked_at_once}, {0, (all_blocks + looked_at_once - 1) / looked_at_once}}, "blocks");
    const Expr block = blocks.y * looked_at_once + blocks.x;
    blocks.where(blocks.y >= from / looked_at_once);
    blocks.where(blocks.y < (to + looked_at_once - 1) / looked_at_once);
    blocks.where(ranges.visits_of_split(block, sp, f_.qt, f_.h, f_.b) != cast<uint8_t>(0));
    layout = state_layout(f_.core, chunk_, weights);
    const std::vector<Var> at{dt, f_.qi, g, sp, f_.qt, f_.h, f_.b};
    state(at) = Tuple(layout.initial);
    std::vector<Expr> next = layout.with_block(
        f_.core, weights, scores_at.scale, state(at), [&](const Func& f) { return f(f_.qi, block, f_.qt, f_.h, f_.b); },
        [&](int n) { return accumulated(n, dt, f_.qi, g, block, f_.qt, f_.h, f_.b); });
    // Numbers that were computed before the loop are used once more at its end, to no effect: as in
    // prefill_state::define_state.
    Expr before_loop = scores_at.of_query(f_.qi) +
                       cast<float>(from + to + f_.query_of_row(f_.qi, f_.qt) + f_.head_of_row(f_.qi, f_.h));
    for (const score_tile::contraction& c : scores_at.contractions)
        before_loop = before_loop + c.query_rows(0, f_.qi, f_.qt, f_.h, f_.b);
    next[0] = next[0] + select(old(0) > std::numeric_limits<float>::max(), before_loop, 0.0f);
    state(at) = Tuple(next);
}

/// The results of a task for each row: (value depths and then the other numbers, row, part, query block, key head,
/// batch).
void gpu_decode_state::define_splits() {
    // Algorithm
    const std::vector<Var> at{dt, f_.qi, g, sp, f_.qt, f_.h, f_.b};
    const std::vector<Expr> of_row{0, f_.qi, 0, sp, f_.qt, f_.h, f_.b};
    std::vector<Expr> sums, others;
    for (int j = 0; j < chunk_; ++j) sums.push_back(old(j));
    for (int i = 0; i < layout.beside_accumulators(); ++i) others.push_back(old(chunk_ + i));
    Expr number;
    if (layout.beside_accumulators() > 0) {
        left_of_rows(at) = Tuple(others);
        std::vector<Expr> all;
        for (int i = 0; i < layout.beside_accumulators(); ++i) all.push_back(number_at(left_of_rows(of_row), i));
        number = one_of(all, x - (chunk_ ? f_.value_depth() : 0));
    }
    if (chunk_) {
        left(at) = Tuple(sums);
        std::vector<Expr> all;
        for (int j = 0; j < chunk_; ++j) {
            std::vector<Expr> of_shares;
            for (int g = 0; g < shares; ++g)
                of_shares.push_back(number_at(left(x % across, f_.qi, g, sp, f_.qt, f_.h, f_.b), j));
            all.push_back(joined(of_shares, [](const Expr& a, const Expr& b) { return a + b; }));
        }
        const Expr sum = one_of(all, x / across);
        number = number.defined() ? select(x < f_.value_depth(), sum, number) : sum;
    }
    partial(x, f_.qi, sp, f_.qt, f_.h, f_.b) = number;
}

Expr gpu_decode_state::maximum_of(const std::vector<Expr>& row) const { return merged->top(row); }
Expr gpu_decode_state::sum_of(const std::vector<Expr>& row) const {
    return merged->sum_of(place_of(layout.sum_at), row);
}
Expr gpu_decode_state::summed_of(int node, const std::vector<Expr>& row) const {
    return merged->sum_of(place_of(layout.place_of(node, f_.core)), row);
}
Expr gpu_decode_state::accumulated_of(const std::vector<Expr>& row, const Expr& d) const {
    return merged->sum_of(d, row);
}

}  // namespace attune::generators::inline gpu
