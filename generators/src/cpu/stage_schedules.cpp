#include "cpu/stage_schedules.hpp"

#include "cpu/register_tile.hpp"
#include "cpu/score_tile_schedule.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace attune::generators::inline cpu {
using namespace Halide;

LoopLevel schedule_rows(epilogue& its, const kernel_frame& f, const row_state* state, int lanes) {
    // Schedule
    const TailStrategy guard = TailStrategy::GuardWithIf;
    const Var &d = f.d, &q = f.q, &h = f.h, &b = f.b, &qi = f.qi;
    const Var qo("qo"), qv("qv"), dj("dj"), dx("dx"), task("task");
    Func& outputs = its.outputs;
    const int block = its.block, depth = f.value_depth(), chunk = state ? state->chunk() : 0;
    const std::vector<OutputImageParam> buffers = outputs.output_buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        OutputImageParam buffer = buffers[i];
        buffer.dim(0).set_stride(its.made[i] == kind::row ? 0 : 1);
        if (i > 0) continue;  // further buffers have the extents of the first
        buffer.dim(0).set_bounds(0, depth);
        for (int dim = 1; dim < 4; ++dim) buffer.dim(dim).set_min(0);
    }
    outputs.bound(d, 0, depth)
        .bound(q, 0, OutputImageParam(buffers.front()).dim(1).extent())
        .split(q, qo, qi, block, guard);
    const bool several_cores = !f.request.core().others.empty();
    for (Func row : its.of_rows()) {
        row.compute_at(outputs, task)
            .bound_extent(qi, block)
            .bound_extent(f.qt, 1)
            .vectorize(qi, std::min(lanes, block));
        // A core's rows outlive its pass. On the stack Halide would place them in the memory of its tile, and make the
        // next core's tile anew.
        if (several_cores) row.store_in(MemoryType::Heap);
    }
    const int transposed = std::gcd(lanes, std::gcd(depth, chunk));
    if (!chunk) {
        outputs.reorder(d, qi, qo, h, b);
        if (std::ranges::find(its.made, kind::output) != its.made.end()) outputs.vectorize(d, lanes, guard);
    } else if (state->depths_in_lanes()) {
        const int vector = std::gcd(lanes, depth);
        outputs.split(d, d, dj, chunk)
            .split(dj, dj, dx, vector)
            .reorder(dx, dj, d, qi, qo, h, b)
            .vectorize(dx)
            .unroll(dj);
    } else if (transposed >= 4) {  // transposed a square at a time, then written by rows
        outputs.split(qi, qi, qv, lanes, guard).split(d, d, dj, chunk, guard).split(dj, dj, dx, transposed);
        outputs.reorder(dx, qv, dj, d, qi, qo, h, b).vectorize(dx).unroll(dj);
        for (auto& [core, normal] : its.normal)
            normal.compute_at(outputs, dj)
                .bound_extent(d, transposed)
                .bound_extent(q, lanes)
                .reorder_storage(d, q)
                .reorder(q, d)
                .vectorize(q, lanes, TailStrategy::RoundUp)
                .unroll(d);
    } else {
        outputs.split(d, d, dj, chunk, guard).reorder(dj, d, qi, qo, h, b).unroll(dj);
    }
    outputs.fuse(qo, h, task).fuse(task, b, task).parallel(task);
    return LoopLevel(outputs, task);
}

void trim_rows(const epilogue& its, const kernel_frame& f, std::vector<row_loop> state, int lanes, Pipeline& pipeline) {
    const Var task("task");
    std::vector<row_loop> loops = std::move(state);
    for (const Func& row : its.of_rows())
        loops.push_back({stage_loop::any_over(row, f.qi), std::min(lanes, its.block)});
    const Expr queries = OutputImageParam(its.outputs.output_buffers().front()).dim(1).extent();
    pipeline.add_custom_lowering_pass(
        new trim_tail_rows(stage_loop::any_over(its.outputs, task), queries, its.block, loops));
}

void schedule_tensor(computed_tensor& its, const kernel_frame& f, int lanes) {
    // Schedule
    const TailStrategy guard = TailStrategy::GuardWithIf;
    const Var &d = f.d, &h = f.h, &b = f.b, c("c"), pt("pt"), px("px"), task("task");
    const Var &p = its.position, &n = its.summed, &ci = its.in_panel, &co = its.panel, &pi = its.in_tile,
              &po = its.tile;
    its.result.compute_root();
    if (its.tokens) {  // may be an output of the kernel
        for (int dim = 0; dim < 3; ++dim) its.result.output_buffer().dim(dim).set_min(0);
        its.result.output_buffer().dim(0).set_stride(1);
    }
    its.result.split(p, po, p, its.block(), guard).split(d, d, c, its.columns, guard).split(p, pt, px, its.rows, guard);
    if (its.tokens)
        its.result.reorder(c, px, pt, d, po, b);
    else
        its.result.reorder(c, px, pt, d, h, po, b);
    its.result.vectorize(c, lanes, guard).fuse(po, b, task).parallel(task);
    // Prefetched before the sums that they are added to, which take longer than memory does.
    for (const Parameter& each : its.read_along)
        its.result.prefetch(each, pt, pt, 0, PrefetchBoundStrategy::GuardWithIf);
    if (!is_const_one(its.dense)) its.result.specialize(its.dense);  // vectors are loaded there, not gathered
    const Var& of_head = its.tokens ? task : h;
    for (Func& sum : its.of_positions)
        sum.compute_at(its.result, its.of_products.empty() ? task : of_head).vectorize(p, lanes, TailStrategy::RoundUp);
    for (computed_tensor::sum_of_channels& each : its.of_products)
        each.sum.update().reorder(each.each.x, p).atomic().vectorize(each.each.x, lanes, guard);
    const register_tile sums{ci, pi, lanes};
    for (computed_tensor::product& each : its.products) {
        each.right.compute_root().bound_extent(ci, its.columns).vectorize(ci, lanes).unroll(ci).parallel(co);
        each.left.compute_at(its.result, each.left_of_head && !its.tokens ? h : task);
        each.left.specialize(each.dense).vectorize(n, lanes, guard);
        each.sums.bound_extent(ci, its.columns).bound_extent(pi, its.rows);
        if (each.is_kept)
            each.sums.compute_at(its.result, of_head);
        else
            each.sums.compute_at(its.result, pt).bound_extent(co, 1).bound_extent(po, 1);
        sums.write_out(each.sums);
        sums.add(each.sums.update(), each.each);
    }
}

void schedule_blocks(subblocks& its, const kernel_frame& f, int lanes, const LoopLevel& task, bool once) {
    // Schedule
    const Var part = its.parts.args()[0], stack("stack");
    Func& first = its.several() ? its.parts : its.visits_of_block;
    const auto of_task = [&](Func& of) {
        of.compute_at(task).bound_extent(f.qt, 1).vectorize(of.args()[0], lanes, TailStrategy::RoundUp);
    };
    if (its.several()) of_task(its.visits_of_block);
    if (once)
        first.compute_root()
            .vectorize(first.args()[0], lanes, TailStrategy::RoundUp)
            .fuse(f.qt, f.h, stack)
            .fuse(stack, f.b, stack)
            .parallel(stack);
    else
        of_task(first);
    if (!its.parts_of_group.has_update_definition()) return;
    if (once)
        its.parts_of_group.compute_at(first, stack).vectorize(part, lanes, TailStrategy::RoundUp);
    else
        of_task(its.parts_of_group);
    its.parts_of_group.update().vectorize(part, lanes);
}

void schedule_stores(stored_tensor& its, const kernel_frame& f, int lanes) {
    // Schedule
    constexpr int few = 1 << 15, queries_of_task = 16;
    OutputImageParam buffer = its.result.output_buffer();
    for (int axis = 0; axis < its.result.dimensions(); ++axis) buffer.dim(axis).set_min(0);
    buffer.dim(0).set_stride(f.inputs.tensor(its.input).dim(0).stride());
    const RVar qo("qo"), qi("qi"), task("task");
    for (int i = 0; i < static_cast<int>(its.stores.size()); ++i) {
        stored_tensor::made_store& each = its.stores[static_cast<std::size_t>(i)];
        const auto& [h, q, b] = std::tuple(each.rows.x, each.rows.y, each.rows.z);
        Stage stored = its.result.update(i);
        stored.allow_race_conditions().split(q, qo, qi, queries_of_task, TailStrategy::GuardWithIf);
        if (each.channels >= 0) {
            const Var d = its.result.args()[static_cast<std::size_t>(each.channels)];
            stored.reorder(d, h, qi, qo, b).vectorize(d, lanes, TailStrategy::GuardWithIf);
        }
        for (Func number : each.shared) number.compute_at(its.result, h);
        for (stored_tensor::made_store::lanes& row : each.by_lanes) {
            row.largest.compute_at(its.result, h).bound_extent(row.lane, lanes).vectorize(row.lane, lanes);
            row.largest.update().vectorize(row.lane, lanes).unroll(row.step);
        }
        stored.specialize(each.elements <= few);
        stored.fuse(qo, b, task).parallel(task);
    }
}

void schedule_transposed(transposed_pairs& its, const kernel_frame& f, int lanes, const block_sizes& tile,
                         const LoopLevel& at, const LoopLevel& storage) {
    // Schedule
    const Var qx("qx"), kx("kx");
    const int square = std::gcd(lanes, tile.key_block);
    its.queries_in_lanes.compute_at(at)
        .hoist_storage(storage)
        .bound_extent(f.qi, tile.query_block)
        .bound_extent(f.ki, tile.key_block)
        .bound_extent(f.qt, 1)
        .bound_extent(f.kb, 1);
    its.queries_in_lanes.split(f.qi, f.qi, qx, lanes)
        .split(f.ki, f.ki, kx, square)
        .reorder(qx, kx, f.ki, f.qi)
        .vectorize(qx)
        .unroll(kx);
    its.rows.compute_at(its.queries_in_lanes, f.ki)
        .bound_extent(f.ki, square)
        .bound_extent(f.qi, lanes)
        .vectorize(f.ki, square)
        .unroll(f.qi);
    its.rows.specialize(its.dense);  // a vector is loaded there, not an element at a time
}

void schedule_scan(non_finite& its, const Var& lane, int lanes, const RDom& each, const LoopLevel& block) {
    // Schedule
    std::vector<VarOrRVar> over{lane};
    for (int i = 0; i < each.dimensions(); ++i) over.emplace_back(each[i]);
    its.magnitudes.compute_at(block).bound_extent(lane, lanes).vectorize(lane, lanes);
    its.magnitudes.update()
        .reorder(over)
        .vectorize(lane, lanes)
        .never_partition(std::vector<VarOrRVar>(over.begin() + 1, over.end()));
    its.spoilt.compute_at(block);
}

void schedule_masked_values(masked_values& its, const LoopLevel& block) {
    // Schedule
    schedule_scan(its.found, its.l, its.width, its.each, block);
}

void schedule_pairs(const cpu_prefill& cut, quadratic_outputs& its, const kernel_frame& f) {
    // Schedule
    const TailStrategy guard = TailStrategy::GuardWithIf;
    const Var &k = f.k, &q = f.q, &h = f.h, &b = f.b, &ki = f.ki, &kb = f.kb, &qi = f.qi, &qt = f.qt;
    const Var kx("kx"), qx("qx"), ko("ko"), qo("qo"), qs("qs"), tasks("tasks");
    const int in_lanes = std::gcd(cut.key_block, 2 * cut.lanes), vector = std::min(in_lanes, cut.lanes);
    const int others = std::gcd(cut.query_block, cut.lanes >= 16 ? 12 : 6);

    Func &outputs = its.outputs, &tile = its.tile, &values = its.values;
    const RDom& steps = its.steps;
    using shape = quadratic_outputs::shape;
    std::vector<OutputImageParam> buffers = outputs.output_buffers();
    for (OutputImageParam& buffer : buffers) buffer.dim(0).set_stride(1);
    for (int dim = 0; dim < outputs.dimensions(); ++dim)
        buffers.front().dim(dim).set_min(0);  // and so all further ones
    outputs.split(k, ko, ki, cut.key_block, guard).vectorize(ki, cut.lanes, guard);
    // Keys are transposed once for several blocks of queries, where there is work enough for that.
    if (its.of != shape::columns)
        outputs.split(q, qo, qi, cut.query_block, guard).split(qo, qo, qs, its.blocks_together(), guard);
    if (its.of == shape::pairs)
        outputs.reorder(ki, qi, qs, ko, qo, h, b).fuse(qo, h, tasks).fuse(tasks, b, tasks).parallel(tasks);
    else if (its.of == shape::head_means)
        outputs.reorder(ki, qi, qs, ko, qo, b).fuse(ko, qo, tasks).fuse(tasks, b, tasks).parallel(tasks);
    else
        outputs.fuse(ko, h, tasks).fuse(tasks, b, tasks).parallel(tasks);
    score_tile_schedule scores(f, its.scores_at);
    const LoopLevel task(outputs, tasks), step(tile, its.guarded);

    its.visits_of_block.compute_at(task);
    tile.compute_at(its.of == shape::pairs ? LoopLevel(outputs, qs) : task)
        .hoist_storage(task)
        .bound_extent(ki, cut.key_block)
        .vectorize(ki, vector);
    Stage update = tile.update();
    if (its.of == shape::columns) {
        const RVar rx("rx"), ro("ro");
        update.split(ki, ki, kx, in_lanes)
            .split(steps.x, ro, rx, others)
            .reorder(kx, rx, ro, ki, steps.y)
            .vectorize(kx, vector)
            .unroll(kx);
        values.compute_at(tile, rx);
    } else {
        update.split(ki, ki, kx, in_lanes)
            .split(qi, qi, qx, others)
            .reorder(kx, qx, qi, ki, qt, steps.x)
            .vectorize(kx, vector)
            .unroll(kx);
        values.compute_at(tile, qx);
        tile.bound_extent(qi, cut.query_block);
    }
    update.never_partition_all();  // one loop, for skip_blocks to guard One query at a time: the formulas of all
                                   // queries together need more registers than there are.
    values.bound_extent(ki, in_lanes)
        .bound_extent(qi, 1)
        .bound_extent(kb, 1)
        .bound_extent(qt, 1)
        .vectorize(ki, vector)
        .unroll(ki);
    scores.schedule_products(LoopLevel(tile, its.of == shape::columns ? VarOrRVar(RVar("ro")) : VarOrRVar(qi)),
                             in_lanes, others, vector);
    for (Func* row : {&its.maximum, &its.inverse})
        if (row->defined())
            row->compute_at(step).bound_extent(qi, cut.query_block).bound_extent(qt, 1).vectorize(qi, cut.lanes);
    const LoopLevel keys = its.of == shape::pairs        ? LoopLevel(outputs, ko)
                           : its.of == shape::head_means ? LoopLevel(tile, steps.x)
                                                         : step;
    scores.schedule_shared(keys);
    scores.schedule_keys(keys, task);
    scores.schedule_queries(step, task);
}

void skip_empty_blocks(const stage_loop& loop, const Func& table, std::vector<clipped_loop> clipped,
                       const kernel_frame& f, Pipeline& pipeline) {
    const auto is_table = [name = table.name()](const Internal::Load& load) { return load.name == name; };
    pipeline.add_custom_lowering_pass(
        new skip_blocks(loop, is_table, std::move(clipped), subblocks::visited_of(f.request)));
}

}  // namespace attune::generators::inline cpu
