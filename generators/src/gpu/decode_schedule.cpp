#include "gpu/decode.hpp"

#include "gpu/shared_schedules.hpp"
#include "kernel/gpu_schedule.hpp"
#include "passes/gpu_passes.hpp"
#include "passes/skip_blocks.hpp"

#include <algorithm>
#include <numeric>

namespace attune::generators::inline gpu {
using namespace Halide;

namespace {

class decode_loops {
public:
    decode_loops(const gpu_decode& cut, gpu_decode_state& its, const kernel_frame& f) : cut_(cut), its_(its), f_(f) {}

    /// `task`: a row, of the kernel that merges.
    void schedule(const LoopLevel& task);

private:
    Stage in_threads(Stage stage, const VarOrRVar& i);
    void by_rows(Func f, const Var& i, int extent);
    void by_pairs(Func f);
    void schedule_rows(const LoopLevel& own);
    void schedule_blocks();
    void schedule_state(const LoopLevel& own);

    const gpu_decode& cut_;
    gpu_decode_state& its_;
    const kernel_frame& f_;
    const Var i_{"i"}, p_{"p"}, s_{"s"}, tx_{"tx"}, ty_{"ty"};
};

/// Puts a loop's iterations from 0 on in threads, one each.
Stage decode_loops::in_threads(Stage stage, const VarOrRVar& i) {
    const TailStrategy guard = TailStrategy::GuardWithIf;
    return stage.split(i, i, tx_, gpu_threads_a_key, guard)
        .split(i, i, ty_, its_.down, guard)
        .reorder(i, tx_, ty_)
        .gpu_threads(tx_, ty_);
}

/// A function of rows and of `extent` places along `i`, one element a thread; neighbouring threads have neighbours
/// along `i`.
void decode_loops::by_rows(Func f, const Var& i, int extent) {
    f.bound_extent(i, extent).bound_extent(f_.qi, its_.rows).fuse(i, f_.qi, p_);
    in_threads(f, p_);
}

/// A tile of pairs: neighbouring threads have neighbouring rows, up to four a thread.
void decode_loops::by_pairs(Func f) {
    f.bound_extent(f_.ki, its_.keys)
        .bound_extent(f_.qi, its_.rows)
        .reorder_storage(f_.qi, f_.ki)
        .split(f_.qi, i_, f_.qi, std::gcd(its_.rows, 4))
        .fuse(i_, f_.ki, p_);
    f.split(p_, p_, tx_, gpu_threads_a_key, TailStrategy::GuardWithIf)
        .split(p_, p_, ty_, its_.down, TailStrategy::GuardWithIf)
        .reorder(f_.qi, p_, tx_, ty_)
        .unroll(f_.qi)
        .gpu_threads(tx_, ty_);
}

void decode_loops::schedule(const LoopLevel& task) {
    // Schedule
    schedule_merge(*its_.merged, task);
    const TailStrategy guard = TailStrategy::GuardWithIf;
    its_.partial.compute_root()
        .bound(its_.x, 0, its_.split_size())
        .split(f_.qi, i_, f_.qi, its_.rows, guard)
        .fuse(its_.x, f_.qi, p_)
        .fuse(i_, its_.sp, s_)
        .fuse(s_, f_.qt, s_);
    its_.partial.split(p_, p_, tx_, gpu_threads_a_key, guard)
        .split(p_, p_, ty_, its_.down, guard)
        .reorder(p_, tx_, ty_, s_, f_.h, f_.b)
        .gpu_blocks(s_, f_.h, f_.b)
        .gpu_threads(tx_, ty_);
    const LoopLevel own(its_.partial, s_);
    schedule_of_group(its_.seen);
    schedule_ranges(its_.ranges, own, LoopLevel(its_.state, its_.blocks.y), gpu_decode_state::looked_at_once,
                    gpu_threads_a_key);
    schedule_rows(own);
    schedule_state(own);
    schedule_blocks();
}

/// Functions that serve all keys of a task.
void decode_loops::schedule_rows(const LoopLevel& own) {
    // Schedule
    const auto kept = [&](Func f) -> Func { return f.compute_at(own).store_in(MemoryType::GPUShared); };
    std::vector<Func> of_rows = its_.scores_at.hoisted_of_queries;
    of_rows.insert(of_rows.end(), {f_.query_of_row, f_.head_of_row});
    for (const Func& f : of_rows) in_threads(kept(f).bound_extent(f_.qi, its_.rows), f_.qi);
    for (score_tile::contraction& c : its_.scores_at.contractions) {
        kept(c.query_rows).reorder_storage(f_.qi, f_.d).align_storage(f_.qi, its_.rows + 4);
        by_rows(c.query_rows, f_.d, f_.depth());
    }
}

void decode_loops::schedule_blocks() {
    // Schedule
    const LoopLevel block(its_.state, its_.blocks.x);
    const auto of_block = [&](Func f) -> Func {
        return f.compute_at(block).store_in(MemoryType::GPUShared).bound_extent(f_.kb, 1);
    };
    for (const Func& f : its_.scores_at.hoisted_of_keys) in_threads(of_block(f).bound_extent(f_.ki, its_.keys), f_.ki);
    for (score_tile::contraction& c : its_.scores_at.contractions) {
        const Var l = c.collected.args()[0];
        const int channels = its_.scores_at.channel_vector, steps = f_.depth() / channels;
        of_block(c.collected)
            .bound_extent(l, channels)
            .bound_extent(f_.ki, its_.keys)
            .bound_extent(f_.qi, its_.rows)
            .reorder_storage(f_.qi, f_.ki, l)
            .align_storage(f_.ki, its_.keys + 1);
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
        c.product.compute_at(its_.scores, p_)
            .unroll(f_.qi)
            .update()
            .reorder(f_.qi, c.lane)
            .unroll(f_.qi)
            .unroll(c.lane);
    }
    by_pairs(of_block(its_.scores));
    for (const Func& weights : its_.weights.of_pairs(f_.core)) by_pairs(of_block(weights));
    for (const Func& each : its_.lane_sums) {
        of_block(each);
        Func f = each;
        f.bound_extent(its_.l, std::gcd(its_.keys, gpu_decode_state::lanes))
            .bound_extent(f_.qi, its_.rows)
            .fuse(f_.qi, its_.l, p_);
        in_threads(f, p_);
    }
    for (const Func& f : its_.weights.of_rows()) in_threads(of_block(f).bound_extent(f_.qi, its_.rows), f_.qi);
}

void decode_loops::schedule_state(const LoopLevel& own) {
    // Schedule
    const auto in_place = [&](Stage stage) {
        return stage.split(its_.dt, its_.dt, tx_, gpu_threads_a_key, TailStrategy::GuardWithIf)
            .fuse(its_.dt, its_.g, ty_);
    };
    its_.state.compute_at(own)
        .store_in(MemoryType::Register)
        .bound_extent(its_.dt, its_.across)
        .bound_extent(f_.qi, its_.rows)
        .bound_extent(its_.g, its_.shares)
        .bound_extent(its_.sp, 1)
        .bound_extent(f_.qt, 1);
    in_place(its_.state).reorder(f_.qi, tx_, ty_).gpu_threads(tx_, ty_).unroll(f_.qi);
    Stage update = in_place(its_.state.update());
    update.reorder(f_.qi, tx_, ty_, its_.blocks.x, its_.blocks.y).gpu_threads(tx_, ty_).unroll(f_.qi);
    update.never_partition(std::vector<VarOrRVar>{its_.blocks.x, its_.blocks.y});  // one loop, for skip_blocks to guard
    if (its_.left.defined()) {
        its_.left.compute_at(own)
            .store_in(MemoryType::GPUShared)
            .bound_extent(its_.dt, its_.across)
            .bound_extent(f_.qi, its_.rows)
            .bound_extent(its_.g, its_.shares);
        in_place(its_.left).reorder(f_.qi, tx_, ty_).gpu_threads(tx_, ty_).unroll(f_.qi);
    }
    if (its_.left_of_rows.defined()) {  // by the thread that holds the first depth of all
        its_.left_of_rows.compute_at(own)
            .store_in(MemoryType::GPUShared)
            .bound_extent(its_.dt, 1)
            .bound_extent(f_.qi, its_.rows)
            .bound_extent(its_.g, 1);
        its_.left_of_rows.reorder(f_.qi, its_.dt, its_.g).gpu_threads(its_.dt, its_.g).unroll(f_.qi);
    }
    if (!its_.chunk()) return;
    its_.accumulated.compute_at(its_.state, tx_).unroll(its_.j).unroll(f_.qi);
    its_.accumulated.update()
        .reorder(f_.qi, its_.j, its_.rk)
        .unroll(f_.qi)
        .unroll(its_.j)
        .unroll(its_.rk, std::gcd(cut_.value_tile, its_.keys / its_.shares));
}

}  // namespace

void apply(const gpu_decode& cut, kernel_stages& all, const std::vector<pass_over_keys<gpu_decode_state>>& softmaxes,
           Pipeline& attention) {
    const kernel_frame& f = all.frame;
    for (computed_tensor& each : all.before.all) schedule_tensor_on_gpu(each, f);
    const LoopLevel row = schedule_merged_rows_on_gpu(all.rows, f);
    for (const auto& [state, frame] : softmaxes) {
        decode_loops(cut, state, frame).schedule(row);
        attention.add_custom_lowering_pass(new private_state({state.state.name()}));
        attention.add_custom_lowering_pass(new bounded_loop(stage_loop(state.state, state.blocks.y)));
        // As in prefill: the table has lost its name in shared memory, and is the only one of bytes there.
        attention.add_custom_lowering_pass(new skip_blocks(
            stage_loop(state.state, state.blocks.x), [](const Internal::Load& load) { return load.type == UInt(8); }));
    }
    attention.add_custom_lowering_pass(new halves_as_words);
}

}  // namespace attune::generators::inline gpu
