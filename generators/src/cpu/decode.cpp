#include "cpu/decode.hpp"

#include "expr/math.hpp"

#include <functional>
#include <numeric>

namespace attune::generators {
using namespace Halide;

namespace {

int largest_divisor(int of, int most) {
    while (of % most != 0) --most;
    return most;
}

constexpr int vectors_a_chunk = 4;

}  // namespace

decode_state::decode_state(const kernel_frame& frame)
    : f_(frame),
      cut_(frame.schedule_as<cpu_decode>()),
      subblocks_(frame),
      block_kinds_(subblocks_.block_kinds),
      scores_at_(frame, "", score_tile::lanes::channels),
      vector_(frame.core.weights < 0 ? 1 : std::gcd(cut_.lanes, frame.value_depth())),
      chunk_(frame.core.weights < 0 ? 0 : largest_divisor(frame.value_depth() / vector_, vectors_a_chunk)),
      chunks_(chunk_ == 0 ? 1 : frame.value_depth() / vector_ / chunk_) {
    scores_(scores_at_.pair()) = choose_whole(scores_at_.masked, lowest, scores_at_.real);
    define_ranges();
    define_weights();
    define_state();
    define_splits();
    define_merge();
}

/// A split is a contiguous range of the blocks between the first and the last that is visited, so that what a mask or a
/// length leaves is shared out evenly. The ranges depend on what is visible and on the number of splits, not on how
/// many keys there is room for.
void decode_state::define_ranges() {
    // Algorithm
    const Expr blocks = f_.key_blocks(), parts = f_.inputs.key_splits, none = cast<uint8_t>(0);
    const std::vector<Var> stack{f_.qt, f_.h, f_.b};
    const RDom every(0, blocks, "every_block");
    const Expr seen = block_kinds_(every, f_.qt, f_.h, f_.b) != none;
    span_(stack) = Tuple(blocks, 0);
    const FuncRef span = span_(stack);
    span_(stack) = Tuple(select(seen, min(span[0], every), span[0]), select(seen, every + 1, span[1]));
    const Expr first = span[0], count = max(span[1] - first, 0);
    range_(sp_, f_.qt, f_.h, f_.b) = Tuple(first + count * sp_ / parts, first + count * (sp_ + 1) / parts);
    const FuncRef range = range_(sp_, f_.qt, f_.h, f_.b);
    kinds_of_split_(f_.kb, sp_, f_.qt, f_.h, f_.b) =
        select(range[0] <= f_.kb && f_.kb < range[1], block_kinds_(f_.kb, f_.qt, f_.h, f_.b), none);
}

/// A row's maximum or sum over the keys of a block: first a vector of partial results, then one number.
Func decode_state::reduced(const std::string& name, const Func& pairs, bool maximum) {
    // Algorithm
    const int vector = std::gcd(f_.cut.key_block, cut_.lanes);
    const Expr first = !maximum ? Expr(0.0f) : softmax() ? Expr(lowest_score) : Expr(lowest);
    const auto join = [&](const Expr& a, const Expr& b) { return maximum ? max(a, b) : a + b; };
    const RDom each(0, f_.cut.key_block / vector, name + "_vector"), lane(0, vector, name + "_lane");
    const std::vector<Var> row{f_.qi, f_.kb, f_.qt, f_.h, f_.b}, of_lane{l_, f_.qi, f_.kb, f_.qt, f_.h, f_.b};
    Func lanes(name + "_lanes"), all(name);
    lanes(of_lane) = first;
    lanes(of_lane) = join(lanes(of_lane), pairs(score_tile::pair_of(f_, each * vector + l_, f_.qi)));
    all(row) = first;
    all(row) = join(all(row), lanes(lane, f_.qi, f_.kb, f_.qt, f_.h, f_.b));
    lane_sums_.emplace_back(lanes, each);
    return all;
}

void decode_state::define_weights() {
    // Algorithm
    const Func weighing = define_weights_of_block(
        f_, scores_at_, softmax(), {scores_, highest_, weights_, sum_},
        [this](const std::string& name, const Func& pairs, bool maximum) { return reduced(name, pairs, maximum); });
    if (!chunk_) return;
    values_ = scores_at_.rows_of(f_.core.value, false, "values");
    values_again_(f_.d, f_.ki, f_.kb, f_.h, f_.b) = values_(f_.d, f_.ki, f_.kb, f_.h, f_.b);
    masked_values_.emplace(f_, block_kinds_,
                           [&](const Expr& d, const Expr& key) { return values_again_(d, key, f_.kb, f_.h, f_.b); });
    rk_ = RDom(0, f_.cut.key_block, "rk");
    rk_.where(!masked_values_->matter());
    looked_at_ = RDom(0, f_.cut.key_block, "looked_at");
    looked_at_.where(masked_values_->matter());
    // (value depth, row, key block, query block, key head, batch)
    accumulated_(f_.d, f_.qi, f_.kb, f_.qt, f_.h, f_.b) = 0.0f;
    for (const RDom& keys : {rk_, looked_at_}) {
        const bool look = !keys.same_as(rk_);
        const Expr weight = weighing(score_tile::pair_of(f_, keys, f_.qi)),
                   value = (look ? values_again_ : values_)(f_.d, keys, f_.kb, f_.h, f_.b);
        accumulated_(f_.d, f_.qi, f_.kb, f_.qt, f_.h, f_.b) +=
            weight * (look ? masked_values::unless_masked(weight, value) : value);
    }
}

void decode_state::define_state() {
    // Algorithm
    blocks_ = RDom(0, f_.key_blocks(), "blocks");
    const Expr block = blocks_.x;
    blocks_.where(kinds_of_split_(blocks_, sp_, f_.qt, f_.h, f_.b) != cast<uint8_t>(0));
    // (lane, chunk, row, part, query block, key head, batch): accumulators, and in every lane the row's maximum, sum,
    // other sums
    std::vector<Expr> initial(static_cast<std::size_t>(chunk_), 0.0f), next;
    const auto place = [&](const Expr& value) {
        initial.push_back(value);
        ++extras_;
        return static_cast<int>(initial.size()) - 1;
    };
    if (softmax() || f_.core.maximum) maximum_at_ = place(softmax() ? lowest_score : lowest);
    if (softmax()) sum_at_ = place(0.0f);
    for (const auto& [node, sum] : row_sums_) summed_at_[node] = place(0.0f);
    const std::vector<Var> at{l_, dc_, f_.qi, sp_, f_.qt, f_.h, f_.b};
    state_(at) = Tuple(initial);
    const FuncRef ref = state_(at);
    const auto old = [&](int i) { return initial.size() == 1 ? Expr(ref) : Expr(ref[i]); };
    const auto of_block = [&](const Func& f) { return f(f_.qi, block, f_.qt, f_.h, f_.b); };
    std::function<Expr(const Expr&, const Expr&)> join = [](const Expr& before, const Expr& here) {
        return before + here;
    };
    if (softmax()) {
        const Expr before = old(maximum_at_), here = of_block(highest_);
        // One of the two factors is 1.
        const Expr factor = exp2_of_nonpositive(-abs(before - here) * (scores_at_.scale * log2_of_e));
        const Expr keep = select(before >= here, 1.0f, factor), take = select(here >= before, 1.0f, factor);
        join = [keep, take](const Expr& x, const Expr& y) { return x * keep + y * take; };
    }
    for (int j = 0; j < chunk_; ++j)
        next.push_back(join(old(j), accumulated_((dc_ * chunk_ + j) * vector_ + l_, f_.qi, block, f_.qt, f_.h, f_.b)));
    if (maximum_at_ >= 0) next.push_back(max(old(maximum_at_), of_block(highest_)));
    if (sum_at_ >= 0) next.push_back(join(old(sum_at_), of_block(sum_)));
    for (const auto& [node, sum] : row_sums_) next.push_back(join(old(summed_at_[node]), of_block(sum)));
    state_(at) = Tuple(next);
}

/// What a task leaves, in one piece of memory: (lane of element of chunk, row, part, query block, key head, batch).
void decode_state::define_splits() {
    // Algorithm
    std::vector<Expr> elements;
    const FuncRef state = state_(x_ % vector_, x_ / (vector_ * state_size()), f_.qi, sp_, f_.qt, f_.h, f_.b);
    for (int i = 0; i < state_size(); ++i) elements.push_back(state_size() == 1 ? Expr(state) : Expr(state[i]));
    partial_(x_, f_.qi, sp_, f_.qt, f_.h, f_.b) =
        elements.size() == 1 ? elements[0] : mux(x_ / vector_ % state_size(), elements);
}

Expr decode_state::part(const Expr& lane, const Expr& chunk, int i, const Expr& split,
                        const std::vector<Expr>& row) const {
    const Expr query = row[0] + row[1], stacked = f_.queries_stacked(),
               blocks = (f_.inputs.query_length + stacked - 1) / stacked;
    return partial_(lane + vector_ * (i + state_size() * chunk),
                    clamp(row[2] % f_.group() * stacked + query % stacked, 0, f_.rows() - 1), split,
                    clamp(query / stacked, 0, max(blocks, 1) - 1),
                    clamp(row[2] / f_.group(), 0, f_.inputs.key_heads - 1), row[3]);
}

void decode_state::define_merge() {
    // Algorithm
    splits_ = RDom(0, f_.inputs.key_splits, "parts");
    const std::vector<Var> row{f_.qi, f_.qt, f_.h, f_.b}, at{l_, dc_, f_.qi, f_.qt, f_.h, f_.b};
    const std::vector<Expr> of_row(row.begin(), row.end());
    Expr factor = 1.0f;
    if (maximum_at_ >= 0) {
        top_(row) = softmax() ? lowest_score : lowest;
        top_(row) = max(top_(row), part(0, 0, maximum_at_, splits_, of_row));
        if (softmax())
            factor = exp2_of_nonpositive((part(l_, dc_, maximum_at_, splits_, of_row) - top_(row)) *
                                         (scores_at_.scale * log2_of_e));
    }
    std::vector<Expr> initial(static_cast<std::size_t>(state_size()), 0.0f), next;
    merged_(at) = Tuple(initial);
    const FuncRef ref = merged_(at);
    for (int i = 0; i < state_size(); ++i)
        next.push_back((initial.size() == 1 ? Expr(ref) : Expr(ref[i])) +
                       (i == maximum_at_ ? Expr(0.0f) : part(l_, dc_, i, splits_, of_row) * factor));
    merged_(at) = Tuple(next);
}

Expr decode_state::merged(const Expr& lane, const Expr& chunk, int i, const std::vector<Expr>& row) const {
    const FuncRef at = merged_(lane, chunk, row[0], row[1], row[2], row[3]);
    return state_size() == 1 ? Expr(at) : Expr(at[i]);
}

Expr decode_state::maximum(const std::vector<Expr>& row) const { return top_(row); }
Expr decode_state::sum(const std::vector<Expr>& row) const { return merged(0, 0, sum_at_, row); }
Expr decode_state::summed(int weights, const std::vector<Expr>& row) const {
    return merged(0, 0, weights == f_.core.statistic_node && softmax() ? sum_at_ : summed_at_.at(weights), row);
}
Expr decode_state::accumulated(const std::vector<Expr>& row, const Expr& d) const {
    std::vector<Expr> chunk;
    for (int j = 0; j < chunk_; ++j) chunk.push_back(merged(d % vector_, d / (vector_ * chunk_), j, row));
    return chunk_ == 1 ? chunk[0] : mux(d / vector_ % chunk_, chunk);
}

void decode_state::schedule(const LoopLevel& task) {
    // Schedule
    const Var xc("xc"), xl("xl");
    const auto lanes = [&](auto stage) {
        if (vector_ > 1) stage.vectorize(l_, vector_);
    };
    merged_.compute_at(task).bound_extent(l_, vector_);
    lanes(merged_);
    lanes(merged_.update().reorder(l_, splits_, dc_));
    if (maximum_at_ >= 0) top_.compute_at(task);

    partial_.compute_root()
        .bound(x_, 0, part_size())
        .split(x_, xc, x_, vector_ * state_size())
        .split(x_, x_, xl, vector_);
    partial_.reorder(xl, x_, xc, f_.qi, sp_, f_.qt, f_.h, f_.b)
        .unroll(x_)
        .fuse(sp_, f_.qt, task_)
        .fuse(task_, f_.h, task_)
        .fuse(task_, f_.b, task_)
        .parallel(task_);
    if (vector_ > 1) partial_.vectorize(xl);

    const LoopLevel own(partial_, task_);
    subblocks_.schedule(own);
    span_.compute_at(own);
    range_.compute_at(own);
    kinds_of_split_.compute_at(own).vectorize(f_.kb, cut_.lanes, TailStrategy::RoundUp);
    state_.compute_at(own).bound_extent(l_, vector_).bound_extent(dc_, chunks_);
    lanes(state_);
    lanes(state_.update().reorder(l_, dc_, f_.qi, blocks_));
    state_.update().never_partition(std::vector<VarOrRVar>{blocks_});  // one loop, for skip_blocks to guard
    scores_at_.schedule_queries(own, own);
    scores_at_.schedule_keys(LoopLevel(state_, blocks_.x), own);
    schedule_blocks();
}

void decode_state::add_passes(Pipeline& pipeline) const {
    scores_at_.fetch_keys(pipeline, scores_);
    if (!chunk_) return;
    const prefetch_rows::loop added{accumulated_.name(), "ro"};
    const bool formed = f_.node(f_.core.value).op != operation::input;
    scores_at_.fetch_rows(pipeline, f_.core.value, formed ? prefetch_rows::loop{values_.name(), f_.ki.name()} : added,
                          added, cut_.value_tile);
}

/// A block ends with the last key that a row of the task sees, so that a call with few keys, or with a window, computes
/// no others.
std::vector<clipped_loop> decode_state::clipped_loops() const {
    if (!subblocks_.several()) return {};
    const int vector = std::gcd(f_.cut.key_block, cut_.lanes);
    std::vector<clipped_loop> all;
    const auto add = [&](const Func& f, const std::string& variable, int keys) {
        all.push_back({{f.name(), variable}, keys, f.name() != scores_.name()});
    };
    add(scores_, f_.ki.name(), vector);
    if (f_.core.weights_by != statistic::none || softmax()) add(weights_, f_.ki.name(), vector);
    for (const auto& [node, weights] : modified_) add(weights, f_.ki.name(), vector);
    for (const auto& [lanes, each] : lane_sums_) add(lanes, each.x.name(), vector);
    if (!chunk_) return all;
    add(accumulated_, "ro", cut_.value_tile);
    add(accumulated_, looked_at_.x.name(), 1);
    all.push_back(masked_values_->scanned_keys());
    return all;
}

void decode_state::schedule_blocks() {
    // Schedule
    const LoopLevel own(partial_, task_), block(state_, blocks_.x);
    const int vector = std::gcd(f_.cut.key_block, cut_.lanes), rows = cut_.query_tile, keys = cut_.value_tile;
    const auto in_block = [&](Func& f) -> Func& {
        return f.compute_at(block).hoist_storage(own).bound_extent(f_.qt, 1).bound_extent(f_.kb, 1);
    };
    in_block(scores_)
        .bound_extent(f_.ki, f_.cut.key_block)
        .split(f_.ki, f_.ki, kx_, vector)
        .split(f_.qi, f_.qi, qx_, rows, TailStrategy::RoundUp);
    scores_.reorder(kx_, qx_, f_.qi, f_.ki).vectorize(kx_);
    scores_at_.schedule_dots(LoopLevel(scores_, qx_), LoopLevel(scores_, f_.qi), LoopLevel(scores_, f_.ki));
    const auto of_pairs = [&](Func& f) { in_block(f).bound_extent(f_.ki, f_.cut.key_block).vectorize(f_.ki, vector); };
    if (f_.core.weights_by != statistic::none || softmax()) of_pairs(weights_);
    for (auto& [node, weights] : modified_) of_pairs(weights);
    for (Func* row : {&highest_, &sum_})
        if (row->defined()) in_block(*row);
    for (auto& [node, sum] : row_sums_) in_block(sum);
    for (auto& [lanes, each] : lane_sums_) {
        lanes.compute_at(block).bound_extent(l_, vector).vectorize(l_, vector);
        lanes.update().reorder(l_, each, f_.qi).vectorize(l_, vector);
        in_block(lanes);
    }
    if (!chunk_) return;
    const RVar ro("ro"), rx("rx");
    const Var dx("dx");
    in_block(accumulated_).bound_extent(f_.d, f_.value_depth()).vectorize(f_.d, vector_);
    accumulated_.update()
        .split(rk_, ro, rx, keys)
        .split(f_.d, f_.d, dx, vector_)
        .split(f_.qi, f_.qi, qx_, rows, TailStrategy::GuardWithIf);
    accumulated_.update().reorder(dx, rx, qx_, f_.d, f_.qi, ro).vectorize(dx).unroll(rx).unroll(qx_);
    accumulated_.update(1).reorder(f_.d, f_.qi, looked_at_).vectorize(f_.d, vector_);
    accumulated_.update(1).never_partition(std::vector<VarOrRVar>{looked_at_});
    masked_values_->schedule(block);
    if (f_.node(f_.core.value).op == operation::input) return;
    values_.clone_in(values_again_);
    scores_at_.schedule_row_vectors(values_.compute_at(accumulated_, ro).bound_extent(f_.ki, keys), f_.value_depth());
}

}  // namespace attune::generators
