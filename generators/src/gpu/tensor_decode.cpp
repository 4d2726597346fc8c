#include "gpu/tensor_decode.hpp"

#include "gpu/shared_schedules.hpp"
#include "gpu/tensor_loops.hpp"
#include "passes/gpu_passes.hpp"

#include <cstdint>

namespace attune::generators::inline gpu {
using namespace Halide;

namespace {

constexpr int threads_of_row = 4;

}  // namespace

gpu_tensor_decode_state::gpu_tensor_decode_state(const kernel_frame& frame)
    : f_(frame),
      marks_(frame.keys().values->check == value_check::sums),
      of_split(frame),
      merged(frame,
             {.of_splits = left_of_splits(),
              .count = frame.value_depth() + gpu_tensor_decode::numbers_beside_sums,
              .maximum_at = frame.value_depth(),
              .splits = of_split.split->splits},
             of_split.scale()) {
    // Algorithm
    const std::vector<Expr> row{f_.qi, f_.qt, f_.h, f_.b};
    Expr sum = 0.0f;
    for (int thread = 0; thread < threads_of_row; ++thread)
        sum = sum + merged.sum_of(f_.value_depth() + 2 * thread + 1, row);
    parts_of_sum(f_.qi, f_.qt, f_.h, f_.b) = sum;
}

Func gpu_tensor_decode_state::left_of_splits() {
    // Algorithm
    const Var &x = merged_splits::x, &sp = merged_splits::sp;
    partial(x, f_.qi, sp, f_.qt, f_.h, f_.b) = of_split.left_of_split({f_.qi, sp, f_.qt, f_.h, f_.b}, x, marks_);
    return partial;
}

Expr gpu_tensor_decode_state::maximum_of(const std::vector<Expr>& row) const {
    return merged.top(row) + of_split.scores_at.left_out;
}

/// If a product makes the sum, each thread has the whole of it.
Expr gpu_tensor_decode_state::sum_of(const std::vector<Expr>& row) const {
    return of_split.sums_by_products ? parts_of_sum(row) * (1.0f / threads_of_row) : Expr(parts_of_sum(row));
}

Expr gpu_tensor_decode_state::summed_of(int, const std::vector<Expr>& row) const { return sum_of(row); }

Expr gpu_tensor_decode_state::accumulated_of(const std::vector<Expr>& row, const Expr& d) const {
    return merged.sum_of(d, row);
}

Expr gpu_tensor_decode_state::is_marked(const std::vector<Expr>& row, const Expr&) const {
    if (!marks_) return {};
    const Expr exponent(0x7f800000u);
    return (reinterpret<std::uint32_t>(parts_of_sum(row)) & exponent) == exponent;
}

namespace {

/// A block of threads has a split of a key head's keys and as many tiles of 16 of its rows as it has warps. Tiles are
/// whole: their unused rows are written too, and never read.
LoopLevel schedule_split(const gpu_tensor_decode& cut, const kernel_frame& f, gpu_tensor_decode_state& its) {
    // Schedule
    tensor_state& s = its.of_split;
    const Var &x = merged_splits::x, &sp = merged_splits::sp, e("e"), lane("lane"), task("task");
    its.partial.compute_root()
        .bound(x, 0, its.merged.left.count)
        .split(f.qi, task, f.qi, cut.of_split().query_block(), TailStrategy::RoundUp)
        .split(f.qi, s.w, f.qi, gpu_tensor_prefill::rows_of_tile)
        .split(f.qi, s.rh, s.gi, 8)
        .split(x, s.nt, x, 8)
        .split(x, s.ti, e, 2)
        .fuse(s.ti, s.gi, lane)
        .fuse(task, sp, task)
        .fuse(task, f.qt, task);
    its.partial.reorder(e, s.nt, s.rh, lane, s.w, task, f.h, f.b)
        .gpu_blocks(task, f.h, f.b)
        .gpu_threads(lane, s.w)
        .unroll(e)
        .unroll(s.nt)
        .unroll(s.rh);
    return {its.partial, task};
}

}  // namespace

void apply(const gpu_tensor_decode& cut, kernel_stages& all, gpu_tensor_decode_state* state, remade_tasks* again,
           Pipeline& attention) {
    const kernel_frame& f = all.frame;
    const LoopLevel row = schedule_merged_rows_on_gpu(all.rows, f);
    schedule_merge(state->merged, row);
    state->parts_of_sum.compute_at(row).store_in(MemoryType::GPUShared).bound_extent(f.qi, 1).bound_extent(f.qt, 1);
    tensor_loops loops(cut.of_split(), f, state->of_split);
    loops.schedule_state(schedule_split(cut, f, *state));
    loops.add_passes(all.rows.outputs, attention);
    if (again) again->apply(all.rows, 1, attention);
    attention.add_custom_lowering_pass(new halves_as_words);
}

}  // namespace attune::generators::inline gpu
