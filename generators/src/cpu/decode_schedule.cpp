#include "cpu/decode.hpp"

#include "cpu/score_tile_schedule.hpp"
#include "cpu/stage_schedules.hpp"
#include "passes/interleave_stores.hpp"
#include "passes/multiply_bytes.hpp"

#include <algorithm>
#include <numeric>
#include <string>

namespace attune::generators::inline cpu {
using namespace Halide;

namespace {

void schedule_blocks_of(const cpu_decode& cut, decode_state& its, const kernel_frame& f) {
    // Schedule
    const Var task("task"), kx("kx"), qx("qx");
    const LoopLevel own(its.merge.partial, task), block(its.state, its.blocks.x);
    const Var& l = row_reductions::l;
    score_tile_schedule scores(f, its.scores_at);
    const auto in_block = [&](Func of) {
        return of.compute_at(block).hoist_storage(own).bound_extent(f.qt, 1).bound_extent(f.kb, 1);
    };
    in_block(its.scores).bound_extent(f.ki, cut.key_block);
    const auto take_rows = [&](Stage stage, int rows) {
        stage.split(f.ki, f.ki, kx, cut.keys_of_step())
            .split(f.qi, f.qi, qx, rows, rows == 1 ? TailStrategy::Auto : TailStrategy::RoundUp)
            .reorder(kx, qx, f.qi, f.ki)
            .vectorize(kx);
    };
    if (f.keys().scores.keys_of_one_row > 0) take_rows(its.scores.specialize(f.rows() == 1), 1);
    take_rows(its.scores, cut.query_tile);
    scores.schedule_dots(cut, LoopLevel(its.scores, qx), LoopLevel(its.scores, f.qi), LoopLevel(its.scores, f.ki));
    for (const Func& weights : its.weights.of_pairs(f.core))
        in_block(weights)  // one loop, for clipped_loops
            .bound_extent(f.ki, cut.key_block)
            .vectorize(f.ki, cut.lanes)
            .never_partition(std::vector<VarOrRVar>{f.ki});
    for (const Func& row : its.weights.of_rows()) in_block(row);
    for (auto& [lanes, each] : its.reduced.in_lanes) {
        lanes.compute_at(block).bound_extent(l, cut.lanes).vectorize(l, cut.lanes);
        lanes.update().reorder(l, each, f.qi).vectorize(l, cut.lanes);
        in_block(lanes);
    }
    if (!its.values) return;
    decode_values& values = *its.values;
    schedule_values(cut, values, f, in_block);
    if (values.of_masked) schedule_masked_values(*values.of_masked, block);
    if (scores.is_read_in_place(f.core.value) || values.is_of_codes()) return;
    values.values.clone_in(values.values_again);
    scores.schedule_row_vectors(
        values.values.compute_at(values.accumulated, decode_values::ro).bound_extent(f.ki, cut.value_tile),
        f.value_depth());
}

/// Key heads innermost, then splits: neighbouring tasks read neighbouring memory.
void schedule_tasks(decode_state& its, const kernel_frame& f) {
    // Schedule
    const Var task("task"), xc("xc"), xl("xl"), &x = its.x;
    its.merge.partial.compute_root()
        .bound(x, 0, its.split_size())
        .split(x, xc, x, its.depths.width * its.layout.size())
        .split(x, x, xl, its.depths.width);
    its.merge.partial.reorder(xl, x, xc, f.qi, f.h, its.sp, f.qt, f.b)
        .unroll(x)
        .fuse(f.h, its.sp, task)
        .fuse(task, f.qt, task)
        .fuse(task, f.b, task)
        .parallel(task);
    if (its.depths.width > 1) its.merge.partial.vectorize(xl);
}

void schedule_keys(const cpu_decode& cut, decode_state& its, const kernel_frame& f, const LoopLevel& merging) {
    // Schedule
    const Var task("task"), &l = row_reductions::l;
    const auto lanes = [&](auto stage) {
        if (its.depths.width > 1) stage.vectorize(l, its.depths.width);
    };
    if (its.layout.size() > (its.layout.maximum_at >= 0 ? 1 : 0)) {  // more than the maximum
        its.merge.merged.compute_at(merging).bound_extent(l, its.depths.width);
        lanes(its.merge.merged);
        lanes(its.merge.merged.update().reorder(l, its.merge.splits, its.dc));
    }
    if (its.layout.maximum_at >= 0) its.merge.top.compute_at(merging);

    const LoopLevel own(its.merge.partial, task);
    // Every split decides about all blocks anew, unless the call chooses keys: then one decision that all splits share
    // is faster.
    const bool chosen = std::ranges::any_of(f.graph().nodes, [](const instruction& node) { return chooses(node.op); });
    schedule_blocks(its.parts, f, cut.lanes, own, chosen);
    its.ranges.span.compute_at(own);
    its.ranges.range.compute_at(own);
    its.ranges.visits_of_split.compute_at(own).vectorize(f.kb, cut.lanes, TailStrategy::RoundUp);
    its.state.compute_at(own).bound_extent(l, its.depths.width).bound_extent(its.dc, its.depths.chunks);
    lanes(its.state);
    lanes(its.state.update().reorder(l, its.dc, f.qi, its.blocks));
    its.state.update().never_partition(std::vector<VarOrRVar>{its.blocks});  // one loop, for skip_blocks to guard
    score_tile_schedule scores(f, its.scores_at);
    scores.schedule_queries(own, own);
    scores.schedule_keys(LoopLevel(its.state, its.blocks.x), own);
    schedule_blocks_of(cut, its, f);
}

/// A block ends with the last key that a row of the task sees, so that a call with few keys, or with a window, computes
/// no others.
std::vector<clipped_loop> clipped_loops(const cpu_decode& cut, const decode_state& its, const kernel_frame& f) {
    if (!its.parts.several()) return {};
    std::vector<clipped_loop> all;
    const auto add = [&](const Func& of, const VarOrRVar& along, int keys) {
        all.push_back({stage_loop::any_over(of, along), keys, of.name() != its.scores.name()});
    };
    add(its.scores, f.ki, cut.keys_of_step());
    for (const Func& weights : its.weights.of_pairs(f.core)) add(weights, f.ki, cut.lanes);
    for (const auto& [lanes, each] : its.reduced.in_lanes) add(lanes, each.x, cut.lanes);
    if (!its.values) return all;
    const decode_values& values = *its.values;
    if (values.integers() > 0) {
        if (values.of_digits.block > 0) add(values.of_digits.scaled, f.ki, cut.lanes);
        add(values.of_digits.digits, f.ki, cut.lanes);
        add(values.of_digits.digit_sums, values.of_digits.few.y, values.integers());
    } else {
        add(values.sums.defined() ? values.sums : values.accumulated, decode_values::ro, cut.value_tile);
        if (const int keys = values.planned().keys_of_one_row) add(values.accumulated, decode_values::r1, keys);
    }
    if (values.looks_at_pairs()) add(values.accumulated, values.looked_at.x, 1);
    if (values.of_masked) all.push_back(values.of_masked->scanned_keys());
    return all;
}

void fetch_rows(const cpu_decode& cut, decode_state& its, const kernel_frame& f, Pipeline& pipeline) {
    const score_tile_schedule scores(f, its.scores_at);
    scores.fetch_keys(pipeline, its.scores);
    if (!its.values || !its.values->planned().fetched) return;
    const decode_values& values = *its.values;
    if (values.is_of_codes()) {
        const stage_loop added = values.integers() > 0
                                     ? stage_loop::any_over(values.of_digits.digit_sums, values.of_digits.few.y)
                                     : stage_loop::any_over(values.sums, decode_values::ro);
        scores.fetch_rows(pipeline, f.core.value,
                          {added, added, values.planned().keys, values.planned().channels,
                           stage_loop::any_over(values.accumulated, decode_values::dt)});
        return;
    }
    const stage_loop added = stage_loop::any_over(values.accumulated, decode_values::ro),
                     formed = stage_loop::any_over(values.values, f.ki);
    scores.fetch_rows(pipeline, f.core.value,
                      {scores.is_read_in_place(f.core.value) ? added : formed, added, cut.value_tile, f.value_depth()});
    if (const int keys = values.planned().keys_of_one_row) {
        const stage_loop one = stage_loop::any_over(values.accumulated, decode_values::r1);
        scores.fetch_rows(pipeline, f.core.value, {one, one, keys, f.value_depth()});
    }
}

}  // namespace

void apply(const cpu_decode& cut, kernel_stages& all, const std::vector<pass_over_keys<decode_state>>& cores,
           Pipeline& attention) {
    const kernel_frame& f = all.frame;
    for (computed_tensor& each : all.before.all) schedule_tensor(each, f, cut.lanes);
    const LoopLevel merging = schedule_rows(all.rows, f, &cores.front().state, cut.lanes);
    for (const auto& [state, frame] : cores) {
        if (state.merge.place == 0) schedule_tasks(state, frame);
        schedule_keys(cut, state, frame, merging);
        skip_empty_blocks(stage_loop(state.state, state.blocks.x), state.ranges.visits_of_split,
                          clipped_loops(cut, state, frame), frame, attention);
        fetch_rows(cut, state, frame, attention);
    }
    if (std::ranges::none_of(std::get<decode_plan>(f.planned().body).cores, multiplies_integers)) return;
    attention.add_custom_lowering_pass(new interleave_stores);
    attention.add_custom_lowering_pass(new multiply_bytes(f.request.target->integers == integer_products::of_words));
}

}  // namespace attune::generators::inline cpu
