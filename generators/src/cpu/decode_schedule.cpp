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

/// A few keys at a time, in the order in which memory has them: each row's sums come from the cache and go there again.
void schedule_accumulated(const cpu_decode& cut, decode_state& its, const kernel_frame& f) {
    // Schedule
    const RVar ro("ro"), rx("rx");
    const Var dx("dx"), qx("qx");
    its.accumulated.vectorize(f.d, its.width);
    its.accumulated.update()
        .split(its.rk, ro, rx, cut.value_tile)
        .split(f.d, f.d, dx, its.width)
        .split(f.qi, f.qi, qx, cut.query_tile, TailStrategy::GuardWithIf);
    its.accumulated.update().reorder(dx, rx, qx, f.d, f.qi, ro).vectorize(dx).unroll(rx).unroll(qx);
}

/// A tile of rows and channels at a time, all keys of the block: its sums stay in registers. For a channel's tile after
/// the other, so that the values of all keys in it stay in the first-level cache for all rows.
void schedule_sums(const cpu_decode& cut, decode_state& its, const kernel_frame& f) {
    // Schedule
    const RVar ro("ro"), rx("rx");
    const Var dj("dj"), dx("dx"), qx("qx");
    const int channels = its.planned().channels, rows = cut.query_tile;
    its.accumulated.split(f.d, f.d, dj, channels)
        .split(dj, dj, dx, its.width)
        .split(f.qi, f.qi, qx, rows, TailStrategy::RoundUp);
    its.accumulated.reorder(dx, dj, qx, f.qi, f.d).vectorize(dx).unroll(dj).unroll(qx);
    its.sums.compute_at(its.accumulated, f.qi).bound_extent(f.d, channels).bound_extent(f.qi, rows);
    its.sums.bound_extent(f.kb, 1).bound_extent(f.qt, 1);
    its.sums.vectorize(f.d, its.width).unroll(f.d).unroll(f.qi);
    its.sums.update().split(its.rk, ro, rx, cut.value_tile).split(f.d, f.d, dx, its.width);
    its.sums.update().reorder(dx, f.d, f.qi, rx, ro).vectorize(dx).unroll(f.d).unroll(f.qi).unroll(rx);
}

/// Of values that are codes: sums of a few rows and vectors, in registers.
void schedule_codes(const cpu_decode& cut, decode_state& its, const kernel_frame& f) {
    // Schedule
    const Var dx("dx"), dt("dt"), qx("qx");
    const RVar ro("ro"), rx("rx");
    const int channels = its.planned().channels;
    const auto schedule_tile = [&](Stage stage, int vectors, int rows) {
        stage.split(f.d, dt, f.d, its.width * vectors).split(f.d, f.d, dx, its.width).vectorize(dx).unroll(f.d);
        if (!its.values_in_order) stage.unroll(dt);  // what a channel's position decides is decided here
        stage.split(f.qi, f.qi, qx, rows, rows == 1 ? TailStrategy::Auto : TailStrategy::RoundUp)
            .reorder(dx, f.d, qx, dt, f.qi);
        if (rows > 1) stage.unroll(qx);
    };
    schedule_tile(its.accumulated.specialize(f.rows() == 1), its.planned().channels_of_one_row / its.width, 1);
    schedule_tile(its.accumulated, channels / its.width, cut.query_tile);
    if (its.integers() == 0) {
        its.added.compute_at(its.accumulated, dt).vectorize(f.d, its.width).unroll(f.d).unroll(f.qi);
        its.added.update().split(its.rk, ro, rx, cut.value_tile).split(f.d, f.d, dx, its.width);
        its.added.update().reorder(dx, f.d, f.qi, rx, ro).vectorize(dx).unroll(f.d).unroll(f.qi).unroll(rx);
        return;
    }
    its.digit_sums.compute_at(its.accumulated, dt);
    its.digit_sums.bound_extent(its.dg, std::get<integer_dots>(its.planned().how).digits)
        .vectorize(f.d, its.width)
        .unroll(f.d)
        .unroll(its.dg)
        .unroll(f.qi);
    its.digit_sums.update().split(f.d, f.d, dx, its.width);
    its.digit_sums.update()
        .reorder(its.few.x, dx, f.d, its.dg, f.qi, its.few.y)
        .atomic()
        .vectorize(its.few.x)
        .vectorize(dx)
        .unroll(f.d)
        .unroll(its.dg)
        .unroll(f.qi);
    its.interleaved.compute_at(its.digit_sums, its.few.y).bound_extent(its.l, its.integers());
    const int side_by_side =
        f.request.target->registers < 32 ? its.width : std::gcd(channels, f.value_depth() / its.pieces_of_values);
    its.interleaved.split(f.d, f.d, dx, side_by_side).reorder(dx, its.l, f.d).vectorize(dx).unroll(its.l).unroll(f.d);
}

void schedule_blocks_of(const cpu_decode& cut, decode_state& its, const kernel_frame& f) {
    // Schedule
    const Var task("task"), kx("kx"), qx("qx");
    const LoopLevel own(its.partial, task), block(its.state, its.blocks.x);
    const int vector = std::gcd(cut.key_block, cut.lanes), rows = cut.query_tile;
    score_tile_schedule scores(f, its.scores_at);
    const auto in_block = [&](Func of) {
        return of.compute_at(block).hoist_storage(own).bound_extent(f.qt, 1).bound_extent(f.kb, 1);
    };
    in_block(its.scores)
        .bound_extent(f.ki, cut.key_block)
        .split(f.ki, f.ki, kx, vector)
        .split(f.qi, f.qi, qx, rows, TailStrategy::RoundUp);
    its.scores.reorder(kx, qx, f.qi, f.ki).vectorize(kx);
    scores.schedule_dots(cut, LoopLevel(its.scores, qx), LoopLevel(its.scores, f.qi), LoopLevel(its.scores, f.ki));
    for (const Func& weights : its.weights.of_pairs(f.core))
        in_block(weights)  // one loop, for clipped_loops
            .bound_extent(f.ki, cut.key_block)
            .vectorize(f.ki, vector)
            .never_partition(std::vector<VarOrRVar>{f.ki});
    for (const Func& row : its.weights.of_rows()) in_block(row);
    for (auto& [lanes, each] : its.lane_sums) {
        lanes.compute_at(block).bound_extent(its.l, vector).vectorize(its.l, vector);
        lanes.update().reorder(its.l, each, f.qi).vectorize(its.l, vector);
        in_block(lanes);
    }
    if (its.vectors_a_chunk == 0) return;
    if (its.integers() > 0) {
        in_block(its.digits)
            .bound_extent(f.ki, cut.key_block)
            .bound_extent(its.dg, std::get<integer_dots>(its.planned().how).digits)
            .split(f.ki, f.ki, kx, vector)
            .reorder(kx, its.dg, f.ki)
            .vectorize(kx)
            .unroll(its.dg);
        in_block(its.largest);
        in_block(its.without_step);
    }
    in_block(its.accumulated).bound_extent(f.d, f.value_depth());
    if (its.values_are_narrow())
        schedule_codes(cut, its, f);
    else if (its.sums.defined())
        schedule_sums(cut, its, f);
    else
        schedule_accumulated(cut, its, f);
    if (its.looks_at_pairs()) {
        Stage looked = its.accumulated.update(its.planned().of_whole_block ? 0 : 1);
        looked.reorder(f.d, f.qi, its.looked_at).vectorize(f.d, its.width);
        looked.never_partition(std::vector<VarOrRVar>{its.looked_at});
    }
    if (its.of_masked) schedule_masked_values(*its.of_masked, block);
    if (scores.is_read_in_place(f.core.value) || its.values_are_narrow()) return;
    its.values.clone_in(its.values_again);
    scores.schedule_row_vectors(its.values.compute_at(its.accumulated, RVar("ro")).bound_extent(f.ki, cut.value_tile),
                                f.value_depth());
}

/// Key heads innermost, then splits: neighbouring tasks read neighbouring memory.
void schedule_tasks(decode_state& its, const kernel_frame& f) {
    // Schedule
    const Var task("task"), xc("xc"), xl("xl"), &x = its.x;
    its.partial.compute_root()
        .bound(x, 0, its.split_size())
        .split(x, xc, x, its.width * its.layout.size())
        .split(x, x, xl, its.width);
    its.partial.reorder(xl, x, xc, f.qi, f.h, its.sp, f.qt, f.b)
        .unroll(x)
        .fuse(f.h, its.sp, task)
        .fuse(task, f.qt, task)
        .fuse(task, f.b, task)
        .parallel(task);
    if (its.width > 1) its.partial.vectorize(xl);
}

void schedule_keys(const cpu_decode& cut, decode_state& its, const kernel_frame& f, const LoopLevel& merging) {
    // Schedule
    const Var task("task"), &l = its.l;
    const auto lanes = [&](auto stage) {
        if (its.width > 1) stage.vectorize(l, its.width);
    };
    if (its.layout.size() > (its.layout.maximum_at >= 0 ? 1 : 0)) {  // more than the maximum
        its.merged.compute_at(merging).bound_extent(l, its.width);
        lanes(its.merged);
        lanes(its.merged.update().reorder(l, its.splits, its.dc));
    }
    if (its.layout.maximum_at >= 0) its.top.compute_at(merging);

    const LoopLevel own(its.partial, task);
    // All splits look at all blocks. What a call chooses takes longer to look at than it takes to share it.
    const bool chosen = std::ranges::any_of(f.graph().nodes, [](const instruction& node) { return chooses(node.op); });
    schedule_blocks(its.parts, f, cut.lanes, own, chosen);
    its.span.compute_at(own);
    its.range.compute_at(own);
    its.visits_of_split.compute_at(own).vectorize(f.kb, cut.lanes, TailStrategy::RoundUp);
    its.state.compute_at(own).bound_extent(l, its.width).bound_extent(its.dc, its.chunks);
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
    const int vector = std::gcd(cut.key_block, cut.lanes);
    std::vector<clipped_loop> all;
    const auto add = [&](const Func& of, const std::string& variable, int keys) {
        all.push_back({{of.name(), variable}, keys, of.name() != its.scores.name()});
    };
    add(its.scores, f.ki.name(), vector);
    for (const Func& weights : its.weights.of_pairs(f.core)) add(weights, f.ki.name(), vector);
    for (const auto& [lanes, each] : its.lane_sums) add(lanes, each.x.name(), vector);
    if (its.vectors_a_chunk == 0) return all;
    if (its.integers() > 0) {
        add(its.digits, f.ki.name(), vector);
        add(its.digit_sums, its.few.y.name(), its.integers());
    } else {
        add(its.values_are_narrow() ? its.added
            : its.sums.defined()    ? its.sums
                                    : its.accumulated,
            "ro", cut.value_tile);
    }
    if (its.looks_at_pairs()) add(its.accumulated, its.looked_at.x.name(), 1);
    if (its.of_masked) all.push_back(its.of_masked->scanned_keys());
    return all;
}

void fetch_rows(const cpu_decode& cut, decode_state& its, const kernel_frame& f, Pipeline& pipeline) {
    const score_tile_schedule scores(f, its.scores_at);
    scores.fetch_keys(cut, pipeline, its.scores);
    if (its.vectors_a_chunk == 0 || !its.planned().fetched) return;
    if (its.values_are_narrow()) {
        const prefetch_rows::loop added = its.integers() > 0
                                              ? prefetch_rows::loop{its.digit_sums.name(), its.few.y.name()}
                                              : prefetch_rows::loop{its.added.name(), "ro"};
        scores.fetch_rows(cut, pipeline, f.core.value, added, added, its.planned().keys, its.planned().channels,
                          {its.accumulated.name(), "dt"});
        return;
    }
    const prefetch_rows::loop added{its.accumulated.name(), "ro"};
    const bool computed = !scores.is_read_in_place(f.core.value);
    scores.fetch_rows(cut, pipeline, f.core.value,
                      computed ? prefetch_rows::loop{its.values.name(), f.ki.name()} : added, added, cut.value_tile,
                      f.value_depth());
}

}  // namespace

void apply(const cpu_decode& cut, kernel_stages& all, const std::vector<decode_core>& cores, Pipeline& attention) {
    const kernel_frame& f = all.frame;
    for (computed_tensor& each : all.before.all) schedule_tensor(each, f, cut.lanes);
    const LoopLevel merging = schedule_rows(all.rows, f, &cores.front().state, cut.lanes);
    for (const auto& [state, frame] : cores) {
        if (state.place == 0) schedule_tasks(state, frame);
        schedule_keys(cut, state, frame, merging);
        skip_empty_blocks(stage_loop(state.state, state.blocks.x), state.visits_of_split,
                          clipped_loops(cut, state, frame), frame, attention);
        fetch_rows(cut, state, frame, attention);
    }
    const bool in_integers = std::ranges::any_of(f.planned().passes_over_keys(), [](const key_pass* pass) {
        return made_by<integer_dots>(pass->scores.how) || (pass->values && made_by<integer_dots>(pass->values->how));
    });
    if (!in_integers) return;
    attention.add_custom_lowering_pass(new interleave_stores);
    attention.add_custom_lowering_pass(new multiply_bytes(f.request.target->integers == integer_products::of_words));
}

}  // namespace attune::generators::inline cpu
