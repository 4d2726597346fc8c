#include "cpu/prefill.hpp"

#include "expr/math.hpp"
#include "passes/prefetch_rows.hpp"

#include <cstdint>
#include <limits>
#include <numeric>

namespace attune::generators {
using namespace Halide;

namespace {

int chunk_of(const schedule& s) {
    const auto* on_gpu = std::get_if<gpu_prefill>(&s);
    return on_gpu ? on_gpu->chunk : std::get<cpu_prefill>(s).chunk;
}

}  // namespace

prefill_state::prefill_state(const kernel_frame& frame)
    : f_(frame),
      scores_at_(frame, "", score_tile::lanes::queries),
      subblocks_(frame),
      block_kinds_(subblocks_.block_kinds),
      chunk_(frame.core.weights < 0 ? 0 : chunk_of(frame.request.schedule)) {
    // If no block is known to be full without looking, the mask is applied where scores are made.
    separate_mask_ = subblocks_.may_be_whole && !scores_at_.masked_by_product && !f_.request.on_gpu();
    define_scores();
    define_weights();
    define_state();
}

void prefill_state::define_scores() {
    // Algorithm
    const std::vector<Var> pair = scores_at_.pair();
    if (!separate_mask_) {
        scores_(pair) = choose_whole(scores_at_.masked, lowest, scores_at_.real);
        return;
    }
    // A separate pass over the blocks that are not known to be full.
    masked_ = RDom(0, f_.cut.key_block, "masked");
    masked_.where(subblocks::kind_of(block_kinds_(f_.kb, f_.qt, f_.h, f_.b)) != cast<uint8_t>(2));
    const Expr masked = substitute(std::map<std::string, Expr>{{f_.ki.name(), masked_.x}}, scores_at_.masked);
    scores_(pair) = scores_at_.real;
    const std::vector<Expr> there = score_tile::pair_of(f_, f_.qi, masked_);
    scores_(there) = select(masked, lowest, scores_(there));
}

void prefill_state::define_weights() {
    // Algorithm
    rk_ = RDom(0, f_.cut.key_block, "rk");
    const std::vector<Var> pair = scores_at_.pair(),
                           row{f_.qi, f_.kb, f_.qt, f_.h, f_.b};  // query in block, key block, ...
    const std::vector<Expr> of_row(row.begin(), row.end()), along = score_tile::pair_of(f_, f_.qi, rk_);
    if (softmax() || f_.core.maximum) {
        highest_(row) = softmax() ? lowest_score : lowest;
        highest_(row) = max(highest_(of_row), scores_(along));
    }
    const auto add_up = [&](Func& total, const Func& weights) {
        total(row) = 0.0f;
        total(row) += weights(along);
    };
    if (softmax()) {
        Expr weight = exp2_of_nonpositive((scores_(pair) - highest_(row)) * (scores_at_.scale * log2_of_e));
        // Rounded before they are added up, so that a row's weights sum to one.
        if (paired()) {  // below the last NaN, which would otherwise be rounded up to a number
            const Expr bits = min(reinterpret<std::uint32_t>(weight) & Expr(0x7fffffffu), Expr(0x7fff7fffu));
            weight = reinterpret<float>((bits + Expr(0x8000u)) & Expr(0xffff0000u));
        }
        weights_(pair) = weight;
        add_up(sum_, weights_);
    } else {
        weights_(pair) = select(is_exactly(scores_(pair), lowest), 0.0f, scores_(pair) * scores_at_.scale);
    }
    const Func weighing =
        define_further_weights(f_, scores_at_, weights_, softmax(), [&](const std::string& name, const Func& weights) {
            Func total(name);
            add_up(total, weights);
            return total;
        });
    if (!chunk_) return;
    if (paired()) return define_pairs();
    values_ = scores_at_.rows_of(f_.core.value, false, "values");
    if (f_.request.on_gpu()) {  // where all keys of a block are added up: beyond the last one stands 0, whatever that
                                // one's values are
        const Func read = values_;
        values_ = Func("values_in_use");
        values_(f_.d, f_.ki, f_.kb, f_.h, f_.b) =
            select(f_.key_at(f_.ki) < f_.inputs.keys_in_use(f_.b), read(f_.d, f_.ki, f_.kb, f_.h, f_.b), 0.0f);
    }
    const Expr depth = min(f_.d, f_.value_depth() - 1);  // the last chunk may be longer than what is left
    accumulated_(f_.qi, f_.d, f_.kb, f_.qt, f_.h, f_.b) =
        0.0f;  // (query in block, value depth, key block, query block, head, batch)
    const auto add_values = [&](const RDom& keys, bool look) {
        const Expr weight = weighing(score_tile::pair_of(f_, f_.qi, keys)),
                   value = values_(depth, keys, f_.kb, f_.h, f_.b);
        accumulated_(f_.qi, f_.d, f_.kb, f_.qt, f_.h, f_.b) +=
            weight * (look ? masked_values::unless_masked(weight, value) : value);
    };
    added_ = RDom(0, f_.cut.key_block, "added");
    if (!f_.request.on_gpu()) {
        masked_values_.emplace(f_, block_kinds_,
                               [&](const Expr& d, const Expr& key) { return values_(d, key, f_.kb, f_.h, f_.b); });
        added_.where(!masked_values_->matter());
    }
    add_values(added_, false);
    if (masked_values_) {
        looked_at_ = RDom(0, f_.cut.key_block, "looked_at");
        looked_at_.where(masked_values_->matter());
        add_values(looked_at_, true);
    }
    weighted_(f_.qi, f_.d, f_.kb, f_.qt, f_.h, f_.b) = accumulated_(f_.qi, f_.d, f_.kb, f_.qt, f_.h, f_.b);
}

/// Weights and values with those of two neighbouring keys beside each other.
void prefill_state::define_pairs() {
    // Algorithm
    const Var j("j"), k2("k2");
    pairs_ = RDom({{0, 2}, {0, f_.cut.key_block / 2}}, "pairs");
    const Expr weight = weights_(score_tile::pair_of(f_, f_.qi, 2 * k2 + j)), depth = min(f_.d, f_.value_depth() - 1);
    weight_pairs_(j, f_.qi, k2, f_.kb, f_.qt, f_.h, f_.b) =
        reinterpret(BFloat(16), cast<std::uint16_t>(reinterpret<std::uint32_t>(weight) >> 16));
    value_pairs_(j, f_.d, k2, f_.kb, f_.h, f_.b) = scores_at_.element_of(f_.core.value, false, f_.d, 2 * k2 + j);
    masked_values_.emplace(f_, block_kinds_, [&](const Expr& d, const Expr& key) {
        return cast<float>(value_pairs_(key % 2, d, key / 2, f_.kb, f_.h, f_.b));
    });
    accumulated_(f_.qi, f_.d, f_.kb, f_.qt, f_.h, f_.b) = 0.0f;
    const auto add_values = [&](const RDom& keys, bool look) {
        const Expr of_pair = cast<float>(weight_pairs_(keys.x, f_.qi, keys.y, f_.kb, f_.qt, f_.h, f_.b)),
                   value = cast<float>(value_pairs_(keys.x, depth, keys.y, f_.kb, f_.h, f_.b));
        accumulated_(f_.qi, f_.d, f_.kb, f_.qt, f_.h, f_.b) +=
            of_pair * (look ? masked_values::unless_masked(of_pair, value) : value);
    };
    pairs_.where(!masked_values_->matter());
    add_values(pairs_, false);
    looked_at_ = RDom({{0, 2}, {0, f_.cut.key_block / 2}}, "looked_at");
    looked_at_.where(masked_values_->matter());
    add_values(looked_at_, true);
    weighted_(f_.qi, f_.d, f_.kb, f_.qt, f_.h, f_.b) = accumulated_(f_.qi, f_.d, f_.kb, f_.qt, f_.h, f_.b);
}

void prefill_state::define_state() {
    // Algorithm
    blocks_ = RDom(0, f_.key_blocks(), "blocks");
    blocks_.where(block_kinds_(blocks_, f_.qt, f_.h, f_.b) != cast<uint8_t>(0));
    const Expr block = blocks_.x;
    const auto of_block = [&](const Func& f) { return f(f_.qi, block, f_.qt, f_.h, f_.b); };
    // (query in block, chunk, query block, head, batch): chunk accumulators, maximum, sum, other sums
    std::vector<Expr> initial(chunk_, 0.0f), next;
    const auto place = [&](const Expr& value) {
        initial.push_back(value);
        return static_cast<int>(initial.size()) - 1;
    };
    if (softmax() || f_.core.maximum) maximum_at_ = place(softmax() ? lowest_score : lowest);
    if (softmax()) sum_at_ = place(0.0f);
    for (const auto& [node, sum] : row_sums_) summed_at_[node] = place(0.0f);
    state_(f_.qi, dc_, f_.qt, f_.h, f_.b) = Tuple(initial);
    const FuncRef ref = state_(f_.qi, dc_, f_.qt, f_.h, f_.b);
    const auto old = [&](int i) { return initial.size() == 1 ? Expr(ref) : Expr(ref[i]); };
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
        next.push_back(join(old(j), weighted_(f_.qi, dc_ * chunk_ + j, block, f_.qt, f_.h, f_.b)));
    if (maximum_at_ >= 0) next.push_back(max(old(maximum_at_), of_block(highest_)));
    if (sum_at_ >= 0) next.push_back(join(old(sum_at_), of_block(sum_)));
    for (const auto& [node, sum] : row_sums_) next.push_back(join(old(summed_at_[node]), of_block(sum)));
    // Halide reuses shared memory after its last use in the program's text, although the loop over the blocks comes
    // back to it. So what was computed before the loop is used once more at the loop's end, to no effect.
    if (f_.request.on_gpu())
        next[0] = next[0] + select(old(0) > std::numeric_limits<float>::max(), scores_at_.of_query(0), 0.0f);
    state_(f_.qi, dc_, f_.qt, f_.h, f_.b) = Tuple(next);
    if (!f_.request.on_gpu() || static_cast<int>(next.size()) == chunk_) return;
    // The state lies in each thread's registers. What other threads need of it is copied to where all can read.
    std::vector<Expr> shared;
    for (int i = chunk_; i < static_cast<int>(next.size()); ++i) shared.push_back(old(i));
    final_(dc_, f_.qi, f_.qt, f_.h, f_.b) = Tuple(shared);
}

namespace {

/// Element i of the state of a row's chunk.
Expr element(const Func& state, const std::vector<Expr>& row, const Expr& chunk, int i) {
    const FuncRef at = state(row[0], chunk, row[1], row[2], row[3]);
    return state.outputs() == 1 ? Expr(at) : Expr(at[i]);
}

}  // namespace

Expr prefill_state::of_row(int i, const std::vector<Expr>& row) const {
    if (!final_.defined()) return element(state_, row, 0, i);
    const FuncRef at = final_(0, row[0], row[1], row[2], row[3]);
    return final_.outputs() == 1 ? Expr(at) : Expr(at[i - chunk_]);
}
Expr prefill_state::maximum(const std::vector<Expr>& row) const { return of_row(maximum_at_, row); }
Expr prefill_state::sum(const std::vector<Expr>& row) const { return of_row(sum_at_, row); }
Expr prefill_state::summed(int weights, const std::vector<Expr>& row) const {
    return of_row(weights == f_.core.statistic_node && softmax() ? sum_at_ : summed_at_.at(weights), row);
}
Expr prefill_state::accumulated(const std::vector<Expr>& row, const Expr& d) const {
    std::vector<Expr> chunk;
    for (int j = 0; j < chunk_; ++j) chunk.push_back(element(state_, row, d / chunk_, j));
    return chunk_ == 1 ? chunk[0] : mux(d % chunk_, chunk);
}

std::vector<clipped_loop> prefill_state::clipped_loops() const {
    if (!subblocks_.several()) return {};
    std::vector<clipped_loop> all;
    const auto add = [&](const Func& f, const std::string& variable, int keys = 1) {
        all.push_back({{f.name(), variable}, keys, f.name() != scores_.name()});
    };
    add(scores_, f_.ki.name(), cut().key_tile);
    if (has_weights()) add(weights_, f_.ki.name());
    for (const auto& [node, weights] : modified_) add(weights, f_.ki.name());
    for (const Func& sum : row_sums()) add(sum, rk_.x.name());
    if (paired())
        add(weight_pairs_, weight_pairs_.args()[2].name(), 2), add(value_pairs_, value_pairs_.args()[2].name(), 2),
            add(accumulated_, pairs_.y.name(), 2), add(accumulated_, looked_at_.y.name(), 2);
    else if (chunk_)
        add(accumulated_, added_.x.name()), add(accumulated_, looked_at_.x.name());
    if (masked_values_) all.push_back(masked_values_->scanned_keys());
    return all;
}

std::vector<row_loop> prefill_state::row_loops() const {
    std::vector<row_loop> all = scores_at_.row_loops();
    const auto add = [&](int rows) { all.push_back({{state_.name(), f_.qi.name()}, rows}); };
    add(cut().lanes);       // where it begins
    add(cut().query_tile);  // where blocks are added
    return all;
}

std::vector<Func> prefill_state::row_sums() const {
    std::vector<Func> all;
    if (maximum_at_ >= 0) all.push_back(highest_);
    if (sum_at_ >= 0) all.push_back(sum_);
    for (const auto& [node, sum] : row_sums_) all.push_back(sum);
    return all;
}

void prefill_state::schedule(const LoopLevel& task) {
    // Schedule
    subblocks_.schedule(task);
    scores_at_.schedule_shared(task);
    scores_at_.schedule_queries(task, task);
    scores_at_.schedule_keys(LoopLevel(state_, blocks_.x), task);
    schedule_scores(task);
    schedule_state(task);
}

void prefill_state::schedule_scores(const LoopLevel& task) {
    // Schedule. Loops that are clipped (subblocks.hpp) are not partitioned.
    const int lanes = cut().lanes, tile = cut().query_tile;
    const auto in_tile = [&](Func& f) {
        f.compute_at(state_, f_.qi)
            .bound_extent(f_.qi, tile)
            .bound_extent(f_.qt, 1)
            .bound_extent(f_.kb, 1)
            .vectorize(f_.qi, lanes)
            .unroll(f_.qi);
    };
    const auto tile_of_pairs = [&](Func& f) {
        in_tile(f);
        f.hoist_storage(task).bound_extent(f_.ki, f_.cut.key_block);
    };
    tile_of_pairs(scores_);
    scores_.split(f_.ki, f_.ki, kx_, cut().key_tile).reorder(f_.qi, kx_, f_.ki).unroll(kx_);
    if (separate_mask_) scores_.update().reorder(f_.qi, masked_).vectorize(f_.qi, lanes).unroll(f_.qi);
    scores_at_.schedule_pairs(LoopLevel(state_, f_.qi), task);
    scores_at_.schedule_products(LoopLevel(scores_, f_.ki), tile, cut().key_tile, lanes);
    for (Func row : row_sums()) {
        in_tile(row);
        row.update()
            .reorder(f_.qi, rk_)
            .vectorize(f_.qi, lanes)
            .unroll(f_.qi)
            .never_partition(std::vector<VarOrRVar>{rk_});
    }
    std::vector<Func> weights;
    if (has_weights()) weights.push_back(weights_);
    for (const auto& [node, of_node] : modified_) weights.push_back(of_node);
    for (Func& each : weights) {
        tile_of_pairs(each);
        each.never_partition(std::vector<VarOrRVar>{f_.ki});
    }
    if (!paired()) return;
    const Var j = weight_pairs_.args()[0], k2 = weight_pairs_.args()[2];
    weight_pairs_.never_partition(std::vector<VarOrRVar>{k2});
    value_pairs_.never_partition(std::vector<VarOrRVar>{k2});
    in_tile(weight_pairs_);
    weight_pairs_.hoist_storage(task)
        .bound_extent(j, 2)
        .bound_extent(k2, f_.cut.key_block / 2)
        .reorder(j, f_.qi, k2)
        .unroll(j);
    value_pairs_.compute_at(state_, blocks_.x)
        .hoist_storage(task)
        .bound_extent(j, 2)
        .bound_extent(k2, f_.cut.key_block / 2)
        .bound_extent(f_.kb, 1);
    value_pairs_.bound_extent(f_.d, f_.value_depth())
        .reorder(j, f_.d, k2)
        .unroll(j)
        .vectorize(f_.d, std::gcd(2 * lanes, f_.value_depth()));
}

/// Prefetches the next tile of keys while one is computed. If a head's keys come from memory, short calls at depth 128
/// take 3 % less time. Shorter rows gain nothing. Neither do values: those of a block are on their way since its first
/// chunk.
void prefill_state::add_passes(Pipeline& pipeline) const {
    constexpr int bytes_of_long_rows = 512;
    const instruction& key = f_.node(f_.core.key);
    if (key.op != operation::input || f_.inputs.is_converted(key.input) ||
        f_.depth() * static_cast<int>(sizeof(float)) < bytes_of_long_rows)
        return;
    const prefetch_rows::loop tiles{scores_.name(), f_.ki.name()};
    const prefetch_rows::stream keys{f_.inputs.tensor(key.input).name(), f_.depth(), 1};
    pipeline.add_custom_lowering_pass(new prefetch_rows(tiles, tiles, {keys}, {}));
}

void prefill_state::schedule_state(const LoopLevel& task) {
    // Schedule
    const int lanes = cut().lanes;
    state_.compute_at(task).bound_extent(f_.qi, f_.cut.query_block).bound_extent(f_.qt, 1).vectorize(f_.qi, lanes);
    state_.update()
        .reorder(f_.qi, dc_, blocks_)
        .split(f_.qi, f_.qi, qv_, cut().query_tile)
        .reorder(qv_, dc_, f_.qi, blocks_)
        .vectorize(qv_, lanes)
        .unroll(qv_);
    state_.update().never_partition(std::vector<VarOrRVar>{blocks_});  // one loop, for skip_blocks to guard
    if (!chunk_) return;
    weighted_.compute_at(state_, dc_)
        .bound_extent(f_.qt, 1)
        .bound_extent(f_.kb, 1)
        .split(f_.d, f_.d, dx_, cut().value_tile)
        .reorder(f_.qi, dx_, f_.d);
    weighted_.vectorize(f_.qi, lanes).unroll(f_.qi).unroll(dx_);
    accumulated_.compute_at(weighted_, f_.d)
        .bound_extent(f_.qt, 1)
        .bound_extent(f_.kb, 1)
        .vectorize(f_.qi, lanes)
        .unroll(f_.qi)
        .unroll(f_.d);
    if (masked_values_) masked_values_->schedule(LoopLevel(state_, blocks_.x));
    if (paired()) {
        accumulated_.update(0)
            .reorder(pairs_.x, f_.qi, f_.d, pairs_.y)
            .atomic()
            .vectorize(pairs_.x)
            .vectorize(f_.qi, lanes)
            .unroll(f_.qi)
            .unroll(f_.d)
            .never_partition(std::vector<VarOrRVar>{pairs_.y});
        accumulated_.update(1)
            .reorder(looked_at_.x, f_.qi, f_.d, looked_at_.y)
            .vectorize(f_.qi, lanes)
            .unroll(f_.qi)
            .unroll(f_.d)
            .never_partition(std::vector<VarOrRVar>{looked_at_.y});
        return;
    }
    for (const auto& [update, keys] : {std::pair(0, added_), {1, looked_at_}})
        if (update == 0 || masked_values_)
            accumulated_.update(update)
                .reorder(f_.qi, f_.d, keys)
                .vectorize(f_.qi, lanes)
                .unroll(f_.qi)
                .unroll(f_.d)
                .never_partition(std::vector<VarOrRVar>{keys});
}

}  // namespace attune::generators
