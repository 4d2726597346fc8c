#include "cpu/prefill.hpp"

#include "cpu/register_tile.hpp"
#include "cpu/score_tile_schedule.hpp"
#include "cpu/stage_schedules.hpp"
#include "passes/multiply_bytes.hpp"
#include "passes/multiply_tiles.hpp"
#include "passes/prefetch_rows.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>

namespace attune::generators::inline cpu {
using namespace Halide;

namespace {

/// Words of values as they lie, turned a square at a time.
void schedule_turned(const cpu_prefill& cut, prefill_values& its, const kernel_frame& f, const LoopLevel& task,
                     const LoopLevel& block) {
    // Schedule
    const Var k2 = its.value_pairs.args()[0], kx("kx"), dx("dx");
    const int words = cut.key_block / (its.of_codes() ? its.keys_of_word() : 2),
              square = std::gcd(cut.lanes, std::gcd(words, f.value_depth() / its.coded.pieces));
    its.value_pairs.compute_at(block)
        .hoist_storage(task)
        .bound_extent(k2, words)
        .bound_extent(f.d, f.value_depth())
        .bound_extent(f.kb, 1);
    its.value_pairs.split(k2, k2, kx, square)
        .split(f.d, f.d, dx, square)
        .reorder(kx, dx, f.d, k2)
        .vectorize(kx)
        .unroll(dx);
    its.value_rows.compute_at(its.value_pairs, f.d).vectorize(f.d, square).unroll(k2);
}

/// Weights and values of two keys; `in_tile` computes a function where a tile of queries is.
void schedule_pairs_of_bf16(const cpu_prefill& cut, prefill_values& its, const kernel_frame& f, const LoopLevel& task,
                            const LoopLevel& block, const std::function<void(Func)>& in_tile) {
    // Schedule
    const Var k2 = its.weight_pairs.args()[its.tiled() ? 1 : 2];
    in_tile(its.weight_pairs);
    its.weight_pairs.hoist_storage(task)
        .bound_extent(k2, cut.key_block / 2)
        .never_partition(std::vector<VarOrRVar>{k2});
    if (its.tiled()) return schedule_turned(cut, its, f, task, block);
    const Var j = its.weight_pairs.args()[0];
    its.weight_pairs.bound_extent(j, 2).reorder(j, f.qi, k2).unroll(j);
    its.value_pairs.compute_at(block)
        .hoist_storage(task)
        .bound_extent(j, 2)
        .bound_extent(k2, cut.key_block / 2)
        .bound_extent(f.kb, 1)
        .never_partition(std::vector<VarOrRVar>{k2});
    its.value_pairs.bound_extent(f.d, f.value_depth())
        .reorder(j, f.d, k2)
        .unroll(j)
        .vectorize(f.d, std::gcd(2 * cut.lanes, f.value_depth()));
}

/// Weights and values of four or two keys as words.
void schedule_words_of_codes(const cpu_prefill& cut, prefill_values& its, const kernel_frame& f, const LoopLevel& task,
                             const LoopLevel& block, const std::function<void(Func)>& in_tile) {
    // Schedule
    const Var kw = its.weight_pairs.args()[1];
    const RVar keys("keys"), kx("kx");
    const int words = cut.key_block / its.keys_of_word();
    in_tile(its.coded.largest);
    its.coded.largest.update()
        .reorder(f.qi, its.coded.each_key)
        .vectorize(f.qi, cut.lanes)
        .unroll(f.qi)
        .never_partition(std::vector<VarOrRVar>{its.coded.each_key});
    in_tile(its.weight_pairs);
    its.weight_pairs.hoist_storage(task).bound_extent(kw, words).never_partition(std::vector<VarOrRVar>{kw});
    if (its.in_tiles())
        schedule_turned(cut, its, f, task, block);
    else
        its.value_pairs.compute_at(block)
            .hoist_storage(task)
            .bound_extent(kw, words)
            .bound_extent(f.d, f.value_depth())
            .bound_extent(f.kb, 1)
            .reorder(f.d, kw)
            .vectorize(f.d, std::gcd(4 * cut.lanes, f.value_depth() / its.coded.pieces))
            .never_partition(std::vector<VarOrRVar>{kw});
    if (its.coded.pieces > 1) its.value_pairs.unroll(f.d);  // branches on a channel's position are constants then
    its.coded.without_step.compute_at(block).bound_extent(f.kb, 1);
    its.coded.without_step.update()
        .split(its.coded.each_key, keys, kx, std::gcd(cut.lanes, cut.key_block))
        .atomic()
        .vectorize(kx);
}

void schedule_scores(const cpu_prefill& cut, prefill_state& its, const kernel_frame& f, const LoopLevel& task) {
    // Schedule. Loops that are clipped (subblocks.hpp) are not partitioned.
    const int lanes = cut.lanes, tile = cut.query_tile;
    const Var kx("kx");
    score_tile_schedule scores(f, its.scores_at);
    const auto in_tile = [&](Func of) {
        of.compute_at(its.state, f.qi)
            .bound_extent(f.qi, tile)
            .bound_extent(f.qt, 1)
            .bound_extent(f.kb, 1)
            .vectorize(f.qi, lanes)
            .unroll(f.qi);
    };
    const auto tile_of_pairs = [&](Func of) {
        in_tile(of);
        of.hoist_storage(task).bound_extent(f.ki, cut.key_block);
    };
    tile_of_pairs(its.scores);
    its.scores.split(f.ki, f.ki, kx, cut.key_tile).reorder(f.qi, kx, f.ki).unroll(kx);
    // A partition is useful only if pairs are read by vectors of keys, all of which then exist. For an index that a
    // formula keeps within bounds Halide would make three loops, and take seconds to find them.
    if (its.scores_at.transposed.empty()) its.scores.never_partition(std::vector<VarOrRVar>{f.ki});
    if (its.masks_apart)
        its.scores.update()
            .reorder(f.qi, its.masked.x, its.masked.y)
            .vectorize(f.qi, lanes)
            .unroll(f.qi)
            .never_partition(std::vector<VarOrRVar>{its.masked.x, its.masked.y});
    scores.schedule_pairs(cut, LoopLevel(its.state, f.qi), task);
    scores.schedule_products(LoopLevel(its.scores, f.ki), tile, cut.key_tile, lanes);
    for (Func row : its.weights.of_rows()) {
        in_tile(row);
        Stage add = row.update();
        if (its.adds_words(row))
            add.reorder(its.values->words.x, f.qi, its.values->words.y)
                .unroll(its.values->words.x)
                .never_partition(std::vector<VarOrRVar>{its.values->words.y});
        else
            add.reorder(f.qi, its.rk).never_partition(std::vector<VarOrRVar>{its.rk});
        add.vectorize(f.qi, lanes).unroll(f.qi);
    }
    for (Func weights : its.kept_weights()) {
        tile_of_pairs(weights);
        weights.never_partition(std::vector<VarOrRVar>{f.ki});
    }
    if (its.values && its.values->pairs_of_bf16())
        schedule_pairs_of_bf16(cut, *its.values, f, task, LoopLevel(its.state, its.blocks.x), in_tile);
    if (its.values && its.values->of_codes())
        schedule_words_of_codes(cut, *its.values, f, task, LoopLevel(its.state, its.blocks.x), in_tile);
}

void schedule_values(const cpu_prefill& cut, prefill_values& its, const kernel_frame& f, const LoopLevel& chunk,
                     const LoopLevel& block) {
    // Schedule
    const int lanes = cut.lanes;
    const Var dx("dx");
    its.weighted.compute_at(chunk).bound_extent(f.qt, 1).bound_extent(f.kb, 1);
    const auto in_tiles = [&](Stage of) {
        of.split(f.d, f.d, dx, cut.value_tile).reorder(f.qi, dx, f.d).vectorize(f.qi, lanes).unroll(f.qi).unroll(dx);
    };
    const register_tile tile{f.qi, f.d, lanes};
    const auto in_registers = [&](Func sum) {
        tile.write_out(sum.compute_at(its.weighted, f.d).bound_extent(f.qt, 1).bound_extent(f.kb, 1));
    };
    if (its.tiled()) {
        its.weighted.bound_extent(f.qi, cut.query_tile).bound_extent(f.d, cut.chunk).vectorize(f.qi, lanes);
    } else if (its.in_tiles()) {
        in_tiles(its.weighted);
        its.accumulated.compute_at(chunk)
            .bound_extent(f.qi, cut.query_tile)
            .bound_extent(f.d, cut.chunk)
            .bound_extent(f.qt, 1)
            .bound_extent(f.kb, 1)
            .vectorize(f.qi, lanes);
    } else {
        in_tiles(its.weighted);
        in_registers(its.accumulated);
    }
    if (its.guarded.defined()) {
        in_tiles(its.weighted.update(its.tiled() ? 1 : 0));
        in_registers(its.guarded);
    }
    if (its.of_masked) schedule_masked_values(*its.of_masked, block);
    const auto one_loop = [](Stage sums, const RDom& keys) {
        sums.never_partition(std::vector<VarOrRVar>{register_tile::loop(keys)});
    };
    if (its.tiled())  // for multiply_tiles
        its.weighted.update().reorder(its.added.x, its.added.y, f.qi, f.d).never_partition_all();
    else if (its.in_tiles())
        its.accumulated.update().reorder(its.added.x, f.qi, f.d).never_partition_all();
    else
        one_loop(tile.add(its.accumulated.update(), its.added), its.added);
    if (its.tiled() || its.pairs_of_bf16()) {  // within a tile each vector would ask
        its.guarded.update().reorder(f.qi, f.d, its.looked_at.x, its.looked_at.y);
        one_loop(tile.write_out(its.guarded.update()), its.looked_at);
    } else if (its.guarded.defined()) {
        one_loop(tile.add(its.guarded.update(), its.looked_at), its.looked_at);
    }
}

void schedule_state(const cpu_prefill& cut, prefill_state& its, const kernel_frame& f, const LoopLevel& task) {
    // Schedule
    const int lanes = cut.lanes;
    const Var qv("qv");
    its.state.compute_at(task).bound_extent(f.qi, cut.query_block).bound_extent(f.qt, 1).vectorize(f.qi, lanes);
    its.state.update()
        .reorder(f.qi, its.dc, its.blocks)
        .split(f.qi, f.qi, qv, cut.query_tile)
        .reorder(qv, its.dc, f.qi, its.blocks)
        .vectorize(qv, lanes)
        .unroll(qv);
    its.state.update().never_partition(std::vector<VarOrRVar>{its.blocks});  // one loop, for skip_blocks to guard
    if (its.values)
        schedule_values(cut, *its.values, f, LoopLevel(its.state, its.dc), LoopLevel(its.state, its.blocks.x));
}

void schedule_keys(const cpu_prefill& cut, prefill_state& its, const kernel_frame& f, const LoopLevel& task) {
    score_tile_schedule scores(f, its.scores_at);
    schedule_blocks(its.parts, f, cut.lanes, task);
    scores.schedule_shared(task);
    scores.schedule_queries(task, task);
    scores.schedule_keys(LoopLevel(its.state, its.blocks.x), task);
    schedule_scores(cut, its, f, task);
    schedule_state(cut, its, f, task);
}

/// Loops over the keys of a block that are clipped to the visited sub-blocks.
std::vector<clipped_loop> clipped_loops(const cpu_prefill& cut, const prefill_state& its, const kernel_frame& f) {
    if (!its.parts.several()) return {};
    std::vector<clipped_loop> all;
    const auto add = [&](const Func& of, const VarOrRVar& along, int keys = 1, int at_a_time = 1) {
        all.push_back({stage_loop::any_over(of, along), keys, of.name() != its.scores.name(), at_a_time});
    };
    add(its.scores, f.ki, cut.key_tile);
    if (its.masks_apart) add(its.scores, its.masked.y, its.parts.keys());
    for (const Func& weights : its.kept_weights()) add(weights, f.ki);
    for (const Func& row : its.weights.of_rows())
        its.adds_words(row) ? add(row, its.values->words.y, 2) : add(row, its.rk.x);
    if (!its.values) return all;
    const prefill_values& values = *its.values;
    if (values.pairs_of_bf16()) {
        for (const Func& pairs : {values.weight_pairs, values.value_pairs}) add(pairs, pairs.args()[2], 2);
        add(values.accumulated, values.added.y, 2), add(values.guarded, values.looked_at.y, 2);
    } else if (values.of_codes()) {
        add(values.coded.largest, values.coded.each_key.x);
        const int in_word = values.keys_of_word();
        add(values.weight_pairs, values.weight_pairs.args()[1], in_word);
        add(values.value_pairs, values.value_pairs.args()[1], in_word);
        add(values.accumulated, values.added.x, in_word), add(values.guarded, values.looked_at.x);
    } else {
        add(values.accumulated, values.added.x, 1, values.planned().keys);
        add(values.guarded, values.looked_at.x);
    }
    if (values.of_masked) all.push_back(values.of_masked->scanned_keys());
    return all;
}

/// Loops over the queries of a block.
std::vector<row_loop> row_loops(const cpu_prefill& cut, prefill_state& its, const kernel_frame& f) {
    std::vector<row_loop> all = score_tile_schedule(f, its.scores_at).row_loops();
    const auto add = [&](int rows) { all.push_back({stage_loop::any_over(its.state, f.qi), rows}); };
    add(cut.lanes);       // where it begins
    add(cut.query_tile);  // where blocks are added
    return all;
}

/// Prefetches the next tile of keys while one is computed.
void fetch_keys(const prefill_state& its, const kernel_frame& f, Pipeline& pipeline) {
    if (!f.keys().scores.fetched) return;
    const instruction& key = f.node(f.core.key);
    const stage_loop tiles = stage_loop::any_over(its.scores, f.ki);
    const prefetch_rows::stream keys{f.inputs.tensor(key.input).name(), f.depth(), 1};
    pipeline.add_custom_lowering_pass(new prefetch_rows(tiles, tiles, {keys}, {}));
}

}  // namespace

void apply(const cpu_prefill& cut, kernel_stages& all, const std::vector<pass_over_keys<prefill_state>>& cores,
           Pipeline& attention) {
    const kernel_frame& f = all.frame;
    for (computed_tensors* tensors : {&all.before, &all.after})
        for (computed_tensor& each : tensors->all) schedule_tensor(each, f, cut.lanes);
    if (!all.rows.empty()) {
        const LoopLevel task = schedule_rows(all.rows, f, cores.empty() ? nullptr : &cores.front().state, cut.lanes);
        std::vector<row_loop> loops;
        for (const auto& [state, frame] : cores) {
            schedule_keys(cut, state, frame, task);
            std::ranges::move(row_loops(cut, state, frame), std::back_inserter(loops));
        }
        if (!cores.empty()) trim_rows(all.rows, f, std::move(loops), cut.lanes, attention);
    }
    for (const auto& [state, frame] : cores) {
        skip_empty_blocks(stage_loop(state.state, state.blocks.x), state.parts.visits_of_block,
                          clipped_loops(cut, state, frame), frame, attention);
        fetch_keys(state, frame, attention);
        if (!state.values || !state.values->in_tiles() || !f.request.target->bf16_tiles) continue;
        const score_tile::contraction& product = state.scores_at.contractions.front();
        attention.add_custom_lowering_pass(
            state.values->of_codes() ? new multiply_tiles({product.dots.name(), state.values->accumulated.name()})
                                     : new multiply_tiles({product.product.name(), state.values->weighted.name()}));
    }
    if (!cores.empty() && std::ranges::any_of(std::get<prefill_plan>(f.planned().body).cores, multiplies_integers))
        attention.add_custom_lowering_pass(
            new multiply_bytes(f.request.target->integers == integer_products::of_words));
    for (quadratic_outputs& each : all.pairs) {
        schedule_pairs(cut, each, f);
        skip_empty_blocks(stage_loop(each.tile, each.guarded), each.visits_of_block, {}, f, attention);
    }
}

}  // namespace attune::generators::inline cpu
