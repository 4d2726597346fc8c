#include "gpu/decode.hpp"
#include "kernel/gpu_schedule.hpp"
#include "passes/gpu_passes.hpp"
#include "passes/skip_blocks.hpp"

#include <algorithm>
#include <numeric>

namespace attune::generators {
using namespace Halide;

/// Numbers from 0 to what a loop's extent is, one a thread.
Stage gpu_decode_state::in_threads(Stage stage, const VarOrRVar& i) const {
    const TailStrategy guard = TailStrategy::GuardWithIf;
    return stage.split(i, i, tx_, gpu_threads_a_key, guard)
        .split(i, i, ty_, down_, guard)
        .reorder(i, tx_, ty_)
        .gpu_threads(tx_, ty_);
}

/// Something of each row and of each of `extent` others, one element a thread; neighbouring threads have neighbours
/// along `i`.
void gpu_decode_state::by_rows(Func f, const Var& i, int extent) const {
    f.bound_extent(i, extent).bound_extent(f_.qi, rows_).fuse(i, f_.qi, p_);
    in_threads(f, p_);
}

/// A tile of pairs: neighbouring threads have neighbouring rows, up to four a thread.
void gpu_decode_state::by_pairs(Func f) const {
    f.bound_extent(f_.ki, keys_)
        .bound_extent(f_.qi, rows_)
        .reorder_storage(f_.qi, f_.ki)
        .split(f_.qi, i_, f_.qi, std::gcd(rows_, 4))
        .fuse(i_, f_.ki, p_);
    f.split(p_, p_, tx_, gpu_threads_a_key, TailStrategy::GuardWithIf)
        .split(p_, p_, ty_, down_, TailStrategy::GuardWithIf)
        .reorder(f_.qi, p_, tx_, ty_)
        .unroll(f_.qi)
        .gpu_threads(tx_, ty_);
}

void gpu_decode_state::schedule(const LoopLevel& task) {
    // Schedule
    schedule_merge(task);
    const TailStrategy guard = TailStrategy::GuardWithIf;
    partial_.compute_root()
        .bound(x_, 0, part_size())
        .split(f_.qi, i_, f_.qi, rows_, guard)
        .fuse(x_, f_.qi, p_)
        .fuse(i_, sp_, s_)
        .fuse(s_, f_.qt, s_);
    partial_.split(p_, p_, tx_, gpu_threads_a_key, guard)
        .split(p_, p_, ty_, down_, guard)
        .reorder(p_, tx_, ty_, s_, f_.h, f_.b)
        .gpu_blocks(s_, f_.h, f_.b)
        .gpu_threads(tx_, ty_);
    const LoopLevel own(partial_, s_);
    schedule_ranges(own);
    schedule_rows(own);
    schedule_state(own);
    schedule_blocks(own);
}

/// A row a block of threads: depths in the threads of a warp, parts in turn in several warps.
void gpu_decode_state::schedule_merge(const LoopLevel& task) {
    // Schedule
    const auto kept = [&](Func& f) -> Func& {
        return f.compute_at(task).store_in(MemoryType::GPUShared).bound_extent(f_.qi, 1).bound_extent(f_.qt, 1);
    };
    if (tops_.defined()) {
        kept(tops_).bound_extent(l_, warp).gpu_threads(l_);
        kept(top_);
    }
    if (factor_.defined())
        kept(factor_)
            .bound_extent(sp_, cut_.key_splits)
            .split(sp_, sp_, tx_, warp, TailStrategy::GuardWithIf)
            .reorder(tx_, sp_)
            .gpu_threads(tx_);
    kept(merged_)
        .bound_extent(x_, part_size())
        .bound_extent(g_, mergers)
        .split(x_, x_, tx_, warp, TailStrategy::GuardWithIf)
        .reorder(x_, tx_, g_)
        .gpu_threads(tx_, g_);
    merging_.compute_at(merged_, x_).update().unroll(merged_splits_.x);
}

void gpu_decode_state::schedule_ranges(const LoopLevel& own) {
    // Schedule
    const TailStrategy guard = TailStrategy::GuardWithIf;
    if (seen_.has_update_definition()) {
        for (Stage stage : {Stage(seen_), seen_.update()})
            stage.split(f_.kb, f_.kb, tx_, warp, guard)
                .reorder(tx_, f_.kb, f_.qt, f_.h, f_.b)
                .fuse(f_.qt, f_.h, s_)
                .gpu_blocks(f_.kb, s_, f_.b)
                .gpu_threads(tx_);
        seen_.compute_root();
    }
    spans_.compute_at(own)
        .store_in(MemoryType::GPUShared)
        .bound_extent(l_, warp)
        .split(l_, ty_, tx_, gpu_threads_a_key)
        .gpu_threads(tx_, ty_);
    span_of_thread_.compute_at(spans_, tx_);
    for (Func f : {span_, range_}) f.compute_at(own).store_in(MemoryType::GPUShared);
    kinds_of_split_.compute_at(state_, blocks_.y)
        .store_in(MemoryType::GPUShared)
        .bound_extent(f_.kb, looked_at_once)
        .gpu_threads(f_.kb);
}

/// What serves all keys of a task.
void gpu_decode_state::schedule_rows(const LoopLevel& own) {
    // Schedule
    const auto kept = [&](Func f) -> Func { return f.compute_at(own).store_in(MemoryType::GPUShared); };
    std::vector<Func> of_rows = scores_at_.hoisted_of_queries_;
    of_rows.insert(of_rows.end(), {f_.query_of_row, f_.head_of_row});
    for (const Func& f : of_rows) in_threads(kept(f).bound_extent(f_.qi, rows_), f_.qi);
    for (score_tile::contraction& c : scores_at_.contractions_) {
        kept(c.query_rows).reorder_storage(f_.qi, f_.d).align_storage(f_.qi, rows_ + 4);
        by_rows(c.query_rows, f_.d, f_.depth());
    }
}

void gpu_decode_state::schedule_blocks(const LoopLevel&) {
    // Schedule
    const LoopLevel block(state_, blocks_.x);
    const auto of_block = [&](Func f) -> Func {
        return f.compute_at(block).store_in(MemoryType::GPUShared).bound_extent(f_.kb, 1);
    };
    for (const Func& f : scores_at_.hoisted_of_keys_) in_threads(of_block(f).bound_extent(f_.ki, keys_), f_.ki);
    for (score_tile::contraction& c : scores_at_.contractions_) {
        const Var l = c.collected.args()[0];
        const int channels = scores_at_.channel_vector(), steps = f_.depth() / channels;
        of_block(c.collected)
            .bound_extent(l, channels)
            .bound_extent(f_.ki, keys_)
            .bound_extent(f_.qi, rows_)
            .reorder_storage(f_.qi, f_.ki, l)
            .align_storage(f_.ki, keys_ + 1);
        c.collected.split(f_.ki, ty_, f_.ki, cut_.key_tile)
            .reorder(f_.qi, f_.ki, l, ty_)
            .unroll(f_.qi)
            .unroll(f_.ki)
            .gpu_threads(l, ty_);
        c.dots.compute_at(c.collected, l).unroll(f_.ki).unroll(f_.qi);
        c.dots.update()
            .reorder(f_.qi, f_.ki, c.each)
            .unroll(f_.qi)
            .unroll(f_.ki)
            .unroll(c.each, std::gcd(cut_.depth_unroll, steps));
        c.product.compute_at(scores_, p_).unroll(f_.qi).update().reorder(f_.qi, c.lane).unroll(f_.qi).unroll(c.lane);
    }
    by_pairs(of_block(scores_));
    if (f_.core.weights_by != statistic::none || softmax()) by_pairs(of_block(weights_));
    for (auto& [node, weights] : modified_) by_pairs(of_block(weights));
    for (const Func& each : lane_sums_) {
        of_block(each);
        Func f = each;
        f.bound_extent(l_, std::gcd(keys_, lanes)).bound_extent(f_.qi, rows_).fuse(f_.qi, l_, p_);
        in_threads(f, p_);
    }
    std::vector<Func> of_rows;
    for (const Func& f : {highest_, sum_})
        if (f.defined()) of_rows.push_back(f);
    for (const auto& [node, sum] : row_sums_) of_rows.push_back(sum);
    for (const Func& f : of_rows) in_threads(of_block(f).bound_extent(f_.qi, rows_), f_.qi);
}

void gpu_decode_state::schedule_state(const LoopLevel& own) {
    // Schedule
    const auto in_place = [&](Stage stage) {
        return stage.split(dt_, dt_, tx_, gpu_threads_a_key, TailStrategy::GuardWithIf).fuse(dt_, g_, ty_);
    };
    state_.compute_at(own)
        .store_in(MemoryType::Register)
        .bound_extent(dt_, across_)
        .bound_extent(f_.qi, rows_)
        .bound_extent(g_, shares_)
        .bound_extent(sp_, 1)
        .bound_extent(f_.qt, 1);
    in_place(state_).reorder(f_.qi, tx_, ty_).gpu_threads(tx_, ty_).unroll(f_.qi);
    Stage update = in_place(state_.update());
    update.reorder(f_.qi, tx_, ty_, blocks_.x, blocks_.y).gpu_threads(tx_, ty_).unroll(f_.qi);
    update.never_partition(std::vector<VarOrRVar>{blocks_.x, blocks_.y});  // one loop, for skip_blocks to guard
    if (left_.defined()) {
        left_.compute_at(own)
            .store_in(MemoryType::GPUShared)
            .bound_extent(dt_, across_)
            .bound_extent(f_.qi, rows_)
            .bound_extent(g_, shares_);
        in_place(left_).reorder(f_.qi, tx_, ty_).gpu_threads(tx_, ty_).unroll(f_.qi);
    }
    if (left_of_rows_.defined()) {  // by the thread that holds the first depth of all
        left_of_rows_.compute_at(own)
            .store_in(MemoryType::GPUShared)
            .bound_extent(dt_, 1)
            .bound_extent(f_.qi, rows_)
            .bound_extent(g_, 1);
        left_of_rows_.reorder(f_.qi, dt_, g_).gpu_threads(dt_, g_).unroll(f_.qi);
    }
    if (!chunk_) return;
    accumulated_.compute_at(state_, tx_).unroll(j_).unroll(f_.qi);
    accumulated_.update()
        .reorder(f_.qi, j_, rk_)
        .unroll(f_.qi)
        .unroll(j_)
        .unroll(rk_, std::gcd(cut_.value_tile, keys_ / shares_));
}

void gpu_decode_state::add_passes(Pipeline& pipeline) const {
    pipeline.add_custom_lowering_pass(new private_state(state_.name()));
    pipeline.add_custom_lowering_pass(new bounded_loop(state_.name() + ".s1." + blocks_.y.name()));
    // As in gpu_prefill_schedule::add_passes: the table has lost its name in shared memory, and nothing else there is
    // of bytes.
    pipeline.add_custom_lowering_pass(
        new skip_blocks(guarded_loop().first, [](const Internal::Load& load) { return load.type == UInt(8); }));
}

}  // namespace attune::generators
