#include "gpu/shared_schedules.hpp"

#include <tuple>
#include <vector>

namespace attune::generators::inline gpu {
using namespace Halide;

void bind_outputs(epilogue& its, const kernel_frame& f) {
    Func& outputs = its.outputs;
    const std::vector<OutputImageParam> buffers = outputs.output_buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        OutputImageParam buffer = buffers[i];
        buffer.dim(0).set_stride(its.made[i] == kind::row ? 0 : 1);
        if (i > 0) continue;  // further buffers have the extents of the first
        buffer.dim(0).set_bounds(0, f.value_depth());
        for (int dim = 1; dim < 4; ++dim) buffer.dim(dim).set_min(0);
    }
    outputs.bound(f.d, 0, f.value_depth()).bound(f.q, 0, OutputImageParam(buffers.front()).dim(1).extent());
}

LoopLevel schedule_merged_rows_on_gpu(epilogue& its, const kernel_frame& f) {
    // Schedule
    const TailStrategy guard = TailStrategy::GuardWithIf;
    const Var &d = f.d, &q = f.q, &h = f.h, &b = f.b, thread_x("thread_x"), thread_y("thread_y");
    bind_outputs(its, f);
    its.outputs.split(d, d, thread_x, 32, guard)
        .split(d, d, thread_y, 8, guard)
        .reorder(d, thread_x, thread_y, q, h, b)
        .gpu_blocks(q, h, b)
        .gpu_threads(thread_x, thread_y);
    const LoopLevel task(its.outputs, q);
    for (Func row : its.of_rows())
        row.compute_at(task)
            .bound_extent(f.qi, 1)
            .bound_extent(f.qt, 1)
            .store_in(MemoryType::GPUShared)
            .gpu_threads(f.qi);
    return task;
}

void schedule_merge(merged_splits& its, const LoopLevel& row) {
    // Schedule
    const Var &qi = kernel_frame::qi, &qt = kernel_frame::qt, tx("tx");
    const auto kept = [&](Func& f) -> Func& {
        return f.compute_at(row).store_in(MemoryType::GPUShared).bound_extent(qi, 1).bound_extent(qt, 1);
    };
    if (its.tops.defined()) {
        kept(its.tops).bound_extent(its.l, merged_splits::warp).gpu_threads(its.l);
        kept(its.top);
    }
    if (its.factor.defined())
        kept(its.factor)
            .bound_extent(its.sp, its.most)
            .split(its.sp, its.sp, tx, merged_splits::warp, TailStrategy::GuardWithIf)
            .reorder(tx, its.sp)
            .gpu_threads(tx);
    kept(its.merged)
        .bound_extent(its.x, its.left.count)
        .bound_extent(its.g, merged_splits::mergers)
        .split(its.x, its.x, tx, merged_splits::warp, TailStrategy::GuardWithIf)
        .reorder(its.x, tx, its.g)
        .gpu_threads(tx, its.g);
    its.merging.compute_at(its.merged, its.x).update().unroll(its.some_splits.x);
}

void schedule_ranges(split_ranges& its, const LoopLevel& task, const LoopLevel& decided, int together, int across) {
    // Schedule
    const Var tx("tx"), ty("ty");
    its.spans.compute_at(task)
        .store_in(MemoryType::GPUShared)
        .bound_extent(its.l, split_ranges::threads)
        .split(its.l, ty, tx, across)
        .gpu_threads(tx, ty);
    its.span_of_thread.compute_at(its.spans, tx);
    for (Func f : {its.span, its.range}) f.compute_at(task).store_in(MemoryType::GPUShared);
    its.visits_of_split.compute_at(decided)
        .store_in(MemoryType::GPUShared)
        .bound_extent(kernel_frame::kb, together)
        .gpu_threads(kernel_frame::kb);
}

void schedule_of_group(Func kinds) {
    if (!kinds.has_update_definition()) return;
    // Schedule
    const std::vector<Var> at = kinds.args();  // key block, query block, key head, batch
    const Var tx("tx"), s("s");
    for (Stage stage : {Stage(kinds), kinds.update()})
        stage.split(at[0], at[0], tx, split_ranges::threads, TailStrategy::GuardWithIf)
            .reorder(tx, at[0], at[1], at[2], at[3])
            .fuse(at[1], at[2], s)
            .gpu_blocks(at[0], s, at[3])
            .gpu_threads(tx);
    kinds.compute_root();
}

namespace {

constexpr int threads_across = 16, threads_along = 16;  // channels and positions of a block of threads, in tiles

/// Sums of a tile in a thread's registers.
void schedule_sums(computed_tensor::product& its, const computed_tensor& of, const LoopLevel& thread) {
    // Schedule
    const Var &ci = of.in_panel, &pi = of.in_tile, &co = of.panel, &po = of.tile;
    its.sums.compute_at(thread)
        .store_in(MemoryType::Register)
        .bound_extent(ci, of.columns)
        .bound_extent(pi, of.rows)
        .bound_extent(co, 1)
        .bound_extent(po, 1)
        .unroll(ci)
        .unroll(pi);
    its.sums.update().reorder(ci, pi, its.each.x).unroll(ci).unroll(pi);
}

}  // namespace

void schedule_tensor_on_gpu(computed_tensor& its, const kernel_frame& f) {
    // Schedule
    const TailStrategy guard = TailStrategy::GuardWithIf;
    const Var p = its.position, d = f.d, h = f.h, b = f.b, po("po"), px("px"), py("py"), dx("dx"), dy("dy");
    its.result.compute_root();
    if (its.tokens) {  // may be an output of the kernel
        for (int dim = 0; dim < 3; ++dim) its.result.output_buffer().dim(dim).set_min(0);
        its.result.output_buffer().dim(0).set_stride(1);
    }
    its.result.split(p, p, px, its.rows, guard).split(p, po, py, threads_along, guard);
    its.result.split(d, d, dx, its.columns, guard).split(d, d, dy, threads_across, guard);
    if (its.tokens)
        its.result.reorder(dx, px, dy, py, d, po, b).gpu_blocks(d, po, b);
    else
        its.result.reorder(dx, px, dy, py, d, po, h, b).fuse(d, po, d).gpu_blocks(d, h, b);
    its.result.gpu_threads(dy, py);
    for (computed_tensor::product& each : its.products) {
        if (!each.is_kept) {
            schedule_sums(each, its, LoopLevel(its.result, dy));
            continue;
        }
        // Read at other channels, too: a launch of its own makes all of them.
        Func kept = each.sums.in();
        const std::vector<Var> at = kept.args();  // channel in panel, position in tile, panel, tile, batch, maybe head
        kept.compute_root().bound_extent(at[0], its.columns).bound_extent(at[1], its.rows);
        kept.split(at[2], at[2], dy, threads_across, guard).split(at[3], at[3], py, threads_along, guard);
        kept.reorder(at[0], at[1], dy, py, at[2], at[3]).unroll(at[0]).unroll(at[1]);
        kept.fuse(at[2], at[3], at[2]);
        at.size() > 5 ? kept.gpu_blocks(at[2], at[4], at[5]) : kept.gpu_blocks(at[2], at[4]);
        kept.gpu_threads(dy, py);
        schedule_sums(each, its, LoopLevel(kept, dy));
    }
}

void schedule_stores_on_gpu(stored_tensor& its, const kernel_frame& f) {
    // Schedule
    OutputImageParam buffer = its.result.output_buffer();
    for (int axis = 0; axis < its.result.dimensions(); ++axis) buffer.dim(axis).set_min(0);
    buffer.dim(0).set_stride(f.inputs.tensor(its.input).dim(0).stride());
    its.result.gpu_single_thread();  // leaves no launch, but elements that are kept would else count as the host's
    for (int i = 0; i < static_cast<int>(its.stores.size()); ++i) {
        stored_tensor::made_store& each = its.stores[static_cast<std::size_t>(i)];
        const auto& [h, q, b] = std::tuple(each.rows.x, each.rows.y, each.rows.z);
        const Var thread("thread");
        const RVar head_of_query("head_of_query");  // fused, as only the first number of a block may be large
        Stage stored = its.result.update(i);
        // Of two rows with one place either may be the last, as on CPUs.
        stored.allow_race_conditions().fuse(h, q, head_of_query);
        if (each.channels >= 0) {
            const Var d = its.result.args()[static_cast<std::size_t>(each.channels)];
            stored.split(d, d, thread, threads_of_stored_row, TailStrategy::GuardWithIf)
                .reorder(d, thread, head_of_query, b)
                .gpu_threads(thread);
        }
        stored.gpu_blocks(head_of_query, b);
        const LoopLevel row(its.result, head_of_query);
        for (Func number : each.shared)
            number.compute_at(row).store_in(MemoryType::GPUShared).bound_extent(f.q, 1).gpu_threads(f.q);
        for (stored_tensor::made_store::lanes& of_row : each.by_lanes) {
            of_row.largest.compute_at(row)
                .store_in(MemoryType::GPUShared)
                .bound_extent(of_row.lane, threads_of_stored_row)
                .gpu_threads(of_row.lane);
            of_row.largest.update().reorder(of_row.step, of_row.lane).gpu_threads(of_row.lane);
        }
    }
}

}  // namespace attune::generators::inline gpu
