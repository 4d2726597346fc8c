#include "cpu/backward.hpp"
#include "cpu/pair_block_schedule.hpp"
#include "cpu/register_tile.hpp"
#include "cpu/stage_schedules.hpp"
#include "passes/skip_blocks.hpp"

namespace attune::generators::inline cpu {
using namespace Halide;

namespace {

void schedule_sweep(const cpu_gradient& cut, backward_sweep& its, const kernel_frame& f) {
    const Var dx("dx");
    Func &sums = its.sums, &product = its.product;
    // Schedule
    sums.compute_root().bound(f.d, 0, its.layout.width).vectorize(f.d, cut.lanes).parallel(f.b);
    sums.update()
        .split(f.d, f.d, dx, cut.sum_channels)
        .reorder(dx, its.in_tile, f.d, its.tile, its.which, its.in_chunk, its.of_block, its.chunk, its.of_group, f.b)
        .parallel(f.b)
        .vectorize(dx, cut.lanes)
        .unroll(dx)
        .unroll(its.in_tile)
        .unroll(its.which)
        .never_partition(std::vector<VarOrRVar>{its.in_chunk, its.of_block});
    product.compute_at(sums, f.d)
        .bound_extent(its.in_block, cut.sum_rows)
        .bound_extent(its.number, 1)
        .bound_extent(f.kb, 1)
        .bound_extent(f.qt, 1);
    const register_tile tile{f.d, its.in_block, cut.lanes};
    tile.write_out(product);
    for (const auto& [update, over] : {std::pair(0, its.within), {1, its.looked_at}})
        if (update < product.num_update_definitions())
            tile.add(product.update(update), over).never_partition(std::vector<VarOrRVar>{tile.loop(over)});
    for (backward_sweep::scanned_rows& of : its.scanned)
        schedule_scan(of.found, its.lane, cut.lanes, of.each,
                      LoopLevel(sums, of.of_query ? its.of_block : its.in_chunk));
    schedule_pairs(cut, its.pairs, f, {{sums, f.b}, {sums, its.of_group}, {sums, its.of_block}, {sums, its.in_chunk}});
}

/// Loops that decide a place run in parallel. Halide cannot prove that this is right.
void schedule_loops(Func gradient, int stage, const RDom& loops, std::size_t first_parallel) {
    const int dimensions = loops.dimensions(), first = static_cast<int>(first_parallel);
    if (first >= dimensions) return;
    Stage update = gradient.update(stage - 1);
    update.allow_race_conditions();
    RVar all = loops[first];
    for (int next = first + 1; next < dimensions; ++next) {
        const RVar fused("fused");
        update.fuse(all, loops[next], fused);
        all = fused;
    }
    // Schedule
    update.parallel(all);
}

/// Numbers of pairs, whose queries are in lanes, are added along the tensor's last axis by vectors: along the keys a
/// square of pairs is transposed first.
void schedule_vectors(const cpu_gradient& cut, backward_sweep::pair_pass& its, const kernel_frame& f) {
    using along = backward_sweep::pair_pass::along;
    if (its.last_axis == along::neither) return;
    const RVar key = its.loops[static_cast<int>(its.key)], query = its.loops[static_cast<int>(its.query)];
    const RVar lanes("lanes"), row("row");
    Stage update = its.gradient.update(its.stage - 1);
    update.allow_race_conditions();  // lanes are different places
    // Schedule
    if (its.last_axis == along::queries) {
        update.split(query, query, lanes, cut.lanes).reorder(lanes, query, key).vectorize(lanes);
        return;
    }
    update.split(key, key, lanes, cut.lanes).split(query, query, row, cut.lanes);
    update.reorder(lanes, row, key, query).vectorize(lanes);
    its.numbers.compute_at(its.gradient, key)
        .hoist_storage(its.gradient, its.loops[static_cast<int>(its.group)])
        .bound_extent(f.ki, cut.lanes)
        .bound_extent(f.qi, cut.lanes)
        .bound_extent(f.kb, 1)
        .bound_extent(f.qt, 1)
        .reorder(f.qi, f.ki)
        .vectorize(f.qi)
        .unroll(f.ki);
}

void schedule_copied(backward_sweep::copied_sums& each, int lanes, const kernel_frame& f) {
    const Var all("all");
    // Schedule
    each.gradient.output_buffer().dim(0).set_bounds(0, each.depth);
    const bool is_output = each.sum.name() == each.gradient.name();
    for (Stage stage : {Stage(each.sum), each.sum.update()}) {
        stage.vectorize(f.d, lanes, TailStrategy::GuardWithIf);
        if (is_output) stage.fuse(f.h, f.b, all).parallel(all);
    }
    if (is_output) return;
    each.sum.compute_at(each.gradient, each.sum.args()[1]);
    each.gradient.vectorize(f.d, lanes, TailStrategy::GuardWithIf).fuse(f.h, f.b, all).parallel(all);
}

/// Schedules a term's products like the sweep's: channels in lanes, a tile in registers. A task goes over the rows of
/// several tiles; their part of the matrix stays in the cache.
void schedule_product(const cpu_gradient& cut, backward_sweep::product_term& its) {
    constexpr int tiles_of_task = 16;
    const Var n = its.lanes, row = its.row, lanes("lanes"), tile("tile"), in_tile("in_tile"), task("task");
    const TailStrategy whole = TailStrategy::RoundUp;
    // Schedule
    its.matrix.compute_root().vectorize(n, cut.lanes, whole);
    if (its.matrix.dimensions() > 1) its.matrix.parallel(its.matrix.args().back());
    if (its.weighs.defined()) its.weighs.compute_root().update().parallel(its.weighs.args().back());
    its.total.compute_root()
        .split(n, n, lanes, cut.sum_channels, whole)
        .split(row, tile, in_tile, its.rows, whole)
        .split(tile, row, tile, tiles_of_task, TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> loops{lanes, in_tile, tile, row};
    loops.insert(loops.end(), its.others.begin(), its.others.end());
    loops.emplace_back(n);
    its.total.reorder(loops).vectorize(lanes, cut.lanes).unroll(lanes).unroll(in_tile);
    its.total.fuse(its.others.empty() ? row : its.others.back(), n, task).parallel(task);
    its.products.compute_at(its.total, tile).bound_extent(n, cut.sum_channels).bound_extent(row, its.rows);
    for (const Var& other : its.others) its.products.bound_extent(other, 1);
    its.products.vectorize(n, cut.lanes).unroll(n).unroll(row);
    std::vector<VarOrRVar> sums{n, row};
    for (int loop = 0; loop < its.summed.dimensions(); ++loop) sums.emplace_back(its.summed[loop]);
    its.products.update().reorder(sums).vectorize(n, cut.lanes).unroll(n).unroll(row);
}

void schedule_outputs(const cpu_gradient& cut, backward_sweep& its, const kernel_frame& f) {
    const Var of_head("of_head");
    // Schedule
    for (Func& gradient : its.outputs)
        for (int dim = 0; dim < gradient.dimensions(); ++dim) gradient.output_buffer().dim(dim).set_min(0);
    for (backward_sweep::copied_sums& each : its.copied) schedule_copied(each, cut.lanes, f);
    for (backward_sweep::rounded_sums& each : its.rounded) {
        if (each.sum.name() == each.gradient.name()) continue;
        each.sum.compute_root();
        each.gradient.vectorize(each.gradient.args()[0], cut.lanes, TailStrategy::GuardWithIf)
            .parallel(each.gradient.args().back());
    }
    for (const auto& [number, sum] : its.wholes) {
        Func all = sum;
        all.compute_root();
        for (Stage stage : {Stage(all), all.update()})
            stage.vectorize(f.d, cut.lanes, TailStrategy::GuardWithIf).parallel(f.b);
    }
    for (const auto& [node, rows] : its.formed) {
        Func all = rows;
        all.compute_root()
            .vectorize(f.d, cut.lanes, TailStrategy::GuardWithIf)
            .fuse(f.h, f.b, of_head)
            .parallel(of_head);
    }
    for (backward_sweep::product_term& each : its.products) schedule_product(cut, each);
    for (const auto& [node, kept] : its.of_positions) {
        Func values = kept.values;
        values.compute_root().vectorize(its.i, cut.lanes).parallel(f.b);
    }
    for (auto& [node, added] : its.added_first) {
        added.sum.compute_root().fuse(f.h, f.b, of_head).parallel(of_head);
        added.sum.update().fuse(f.h, f.b, of_head).parallel(of_head);
    }
    for (const auto& each : its.placed) schedule_loops(each.gradient, each.stage, each.loops, each.first_parallel);
    for (backward_sweep::pair_pass& pass : its.passes) {
        const auto at = [&](std::size_t loop) { return LoopLevel(pass.gradient, pass.loops[static_cast<int>(loop)]); };
        schedule_pairs(cut, pass.pairs, f, {at(pass.group), at(pass.group), at(pass.block), at(pass.key_block)});
        schedule_vectors(cut, pass, f);
        schedule_loops(pass.gradient, pass.stage, pass.loops, pass.first_parallel);
        if (pass.last_axis == backward_sweep::pair_pass::along::neither || pass.stage != 1) continue;
        // Zeros, once an output, and before all terms.
        const std::vector<Var> axes = pass.gradient.args();
        pass.gradient.vectorize(axes.front(), cut.lanes, TailStrategy::GuardWithIf);
        if (axes.size() > 1) pass.gradient.parallel(axes.back());
    }
}

}  // namespace

void apply(const cpu_gradient& cut, backward_sweep& its, const kernel_frame& f, Pipeline& gradients) {
    its.visits.compute_root().vectorize(f.kb, cut.lanes);
    schedule_outputs(cut, its, f);
    if (!its.plan.sums.empty()) schedule_sweep(cut, its, f);
    const auto skip = [&](const stage_loop& loop, std::vector<clipped_loop> clipped) {
        gradients.add_custom_lowering_pass(new skip_blocks(
            loop, [table = its.visits.name()](const Internal::Load& load) { return load.name == table; },
            std::move(clipped),
            [keys = its.subblock](const Expr& visits) { return visited_subblocks{0, cast<int>(visits), keys}; }));
    };
    if (!its.plan.sums.empty()) {
        std::vector<clipped_loop> clipped;
        for (const auto& [node, tile] : its.pairs.tiles)
            clipped.push_back({stage_loop::any_over(tile, f.ki), cut.key_tile});
        for (const pair_block::contraction& each : its.pairs.contractions)
            if (each.is_kept) clipped.push_back({stage_loop::any_over(each.whole, f.ki), cut.key_tile});
        for (const pair_block::turned_tile& each : its.pairs.turned)
            clipped.push_back({stage_loop::any_over(each.copy, f.ki), 2});
        skip(stage_loop(its.sums, its.in_chunk), std::move(clipped));
    }
    for (const backward_sweep::pair_pass& pass : its.passes)
        skip(stage_loop(pass.gradient, pass.loops[static_cast<int>(pass.key_block)], pass.stage - 1), {});
}

}  // namespace attune::generators::inline cpu
