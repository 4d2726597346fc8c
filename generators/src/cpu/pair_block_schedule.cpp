#include "cpu/pair_block_schedule.hpp"
#include "cpu/register_tile.hpp"
#include "cpu/stage_schedules.hpp"

#include <algorithm>
#include <numeric>

namespace attune::generators::inline cpu {
using namespace Halide;

namespace {

/// A block of pairs, a tile of queries in lanes and of keys at a time. `written_out`: formulas over the tile's sums are
/// written out for all its pairs together, too.
void schedule_block(const cpu_gradient& cut, Func pairs, const kernel_frame& f, const pair_loops& at,
                    bool written_out) {
    const Var qx("qx"), kx("kx");
    // Schedule
    pairs.compute_at(at.key_block)
        .hoist_storage(at.task)
        .bound_extent(f.qi, cut.block)
        .bound_extent(f.ki, cut.block)
        .bound_extent(f.kb, 1)
        .bound_extent(f.qt, 1)
        .split(f.qi, f.qi, qx, cut.query_tile)
        .split(f.ki, f.ki, kx, cut.key_tile)
        .reorder(qx, kx, f.qi, f.ki)
        .vectorize(qx, cut.lanes);
    if (written_out) pairs.unroll(qx).unroll(kx);
}

/// Channels two at a time, queries in lanes.
void schedule_panel_of_pairs(const cpu_gradient& cut, pair_block::contraction& c, const Var& n, const kernel_frame& f,
                             const pair_loops& at) {
    const Var j = c.panel.args()[0];
    // Schedule
    c.panel.compute_at(at.block).bound_extent(j, 2).bound_extent(f.qi, cut.block).bound_extent(f.qt, 1);
    c.panel.reorder(j, n, f.qi).unroll(j);
    if (const auto depth = as_const_int(c.depth)) c.panel.bound_extent(n, static_cast<int>(*depth) / 2);
    if (cut.block % 64 == 0) c.panel.align_storage(f.qi, cut.block + cut.lanes);
}

/// Two positions at a time, `lanes` of them side by side.
void schedule_in_pairs(Func copy, const Var& lanes, int extent, const Var& position, const cpu_gradient& cut) {
    const Var j = copy.args()[0];
    // Schedule
    copy.bound_extent(j, 2).bound_extent(lanes, extent).bound_extent(position, cut.block / 2);
    copy.reorder(j, lanes, position).unroll(j).vectorize(lanes, std::gcd(extent, 2 * cut.lanes));
}

void schedule_contraction(const cpu_gradient& cut, pair_block::contraction& c, const Var& n, const kernel_frame& f,
                          const pair_loops& at) {
    const Var nx("nx"), qx("qx");
    const auto depth = as_const_int(c.depth);
    if (c.in_pairs) return schedule_panel_of_pairs(cut, c, n, f, at);
    // Schedule
    c.panel.compute_at(at.block).bound_extent(f.qi, cut.block).bound_extent(f.qt, 1);
    c.panel.split(f.qi, f.qi, qx, cut.lanes).vectorize(qx);
    if (depth) {  // a square at a time
        const int side = std::gcd(static_cast<int>(*depth), cut.lanes);
        c.panel.bound_extent(n, static_cast<int>(*depth)).split(n, n, nx, side).reorder(qx, nx, n, f.qi).unroll(nx);
        c.rows.compute_at(c.panel, n).bound_extent(n, side).bound_extent(f.qi, cut.lanes).bound_extent(f.qt, 1);
        c.rows.vectorize(n).unroll(f.qi);
    } else {
        c.panel.reorder(qx, f.qi, n);
    }
    if (cut.block % 64 == 0)
        c.panel.align_storage(f.qi, cut.block + 2 * cut.lanes);  // or rows lie in few sets of the cache
    if (c.keys.defined()) {
        c.keys.compute_at(at.key_block).hoist_storage(at.task);
        c.keys.bound_extent(f.ki, cut.block).bound_extent(f.kb, 1);
        if (depth)
            c.keys.bound_extent(n, static_cast<int>(*depth))
                .vectorize(n, std::gcd(static_cast<int>(*depth), cut.lanes));
    }
}

/// Sums in registers, where they are used.
void schedule_sums(const cpu_gradient& cut, pair_block::contraction& c, const Func& user, const kernel_frame& f) {
    // Schedule
    c.sums.compute_at(user, f.qi)
        .bound_extent(f.qi, cut.query_tile)
        .bound_extent(f.ki, cut.key_tile)
        .bound_extent(f.kb, 1)
        .bound_extent(f.qt, 1);
    const register_tile tile{f.qi, f.ki, cut.lanes};
    tile.write_out(c.sums);
    tile.add(c.sums.update(), c.channels);
    const int at_once = c.in_pairs ? 2 : 1;
    if (const auto depth = as_const_int(c.depth))
        c.sums.update().unroll(tile.loop(c.channels),
                               std::gcd(static_cast<int>(*depth) / at_once, std::max(cut.depth_unroll / at_once, 1)));
}

/// Positions in lanes, a square of rows at a time.
void schedule_sum_of_rows(const cpu_gradient& cut, pair_block::hoisted_number& its, const Var& n,
                          const kernel_frame& f) {
    const Var position = its.of_query ? f.qi : f.ki, block = its.of_query ? f.qt : f.kb;
    const RVar of_square("of_square"), square("square");
    // Squares of 16 hold so many registers that LLVM keeps sums of the products, too, in memory.
    const int side = std::gcd(static_cast<int>(*as_const_int(its.channels.x.extent())), cut.lanes > 8 ? 4 : cut.lanes);
    // Schedule
    its.sum.compute_at(its.values, position).bound_extent(position, cut.lanes).bound_extent(block, 1);
    its.sum.vectorize(position);
    its.sum.update().split(its.channels.x, square, of_square, side).reorder(position, of_square, square);
    its.sum.update().vectorize(position).unroll(of_square);
    for (pair_block::turned_rows& each : its.rows) {
        for (Func rows : {each.as_they_lie, each.positions_first})
            rows.compute_at(its.sum, square)
                .bound_extent(n, side)
                .bound_extent(position, cut.lanes)
                .bound_extent(block, 1);
        each.as_they_lie.vectorize(n).unroll(position);
        each.positions_first.vectorize(position).unroll(n);
    }
}

}  // namespace

void schedule_pairs(const cpu_gradient& cut, pair_block& its, const kernel_frame& f, const pair_loops& at) {
    // Schedule
    for (Func each : {its.keys_in_use, its.last_key}) each.compute_at(at.task);
    for (pair_block::hoisted_number& each : its.hoisted) {
        Func& values = each.values;
        if (each.of_query)  // of all blocks: chunks of keys have them in common
            values.compute_at(at.group).bound_extent(f.qi, cut.block);
        else if (each.of_key)
            values.compute_at(at.key_block).bound_extent(f.ki, cut.block).bound_extent(f.kb, 1);
        else
            values.compute_at(at.group);
        if (each.of_query || each.of_key) values.vectorize(each.of_query ? f.qi : f.ki, cut.lanes);
        if (each.sum.defined()) schedule_sum_of_rows(cut, each, its.in_panel, f);
    }
    for (pair_block::side_rows& each : its.copies) {
        Func& rows = each.copy;
        rows.compute_at(each.of_query ? at.block : at.key_block).hoist_storage(at.task);
        rows.bound_extent(each.of_query ? f.qi : f.ki, cut.block).bound_extent(each.of_query ? f.qt : f.kb, 1);
        rows.bound_extent(f.d, each.width).vectorize(f.d, cut.lanes);
    }
    for (pair_block::contraction& each : its.contractions) {
        schedule_contraction(cut, each, its.in_panel, f, at);
        if (each.is_kept) schedule_block(cut, each.whole, f, at, true);
    }
    for (pair_block::paired_rows& each : its.paired) {
        each.copy.compute_at(each.of_query ? at.block : at.key_block).hoist_storage(at.task);
        each.copy.bound_extent(each.of_query ? f.qt : f.kb, 1);
        schedule_in_pairs(each.copy, f.d, each.width, each.of_query ? f.qi : f.ki, cut);
    }
    for (pair_block::turned_tile& each : its.turned) {
        each.copy.compute_at(at.key_block).hoist_storage(at.task).bound_extent(f.kb, 1).bound_extent(f.qt, 1);
        schedule_in_pairs(each.copy, f.qi, cut.block, f.ki, cut);
    }
    for (transposed_pairs& each : its.transposed)
        schedule_transposed(each, f, cut.lanes, {cut.block, cut.block}, at.key_block, at.task);
    for (auto& [node, tile] : its.tiles) {
        schedule_block(cut, tile, f, at, its.is_short(node));
        for (pair_block::contraction& c : its.contractions)
            if (c.is_kept ? node == its.wanted.front() : c.reader == node)
                schedule_sums(cut, c, c.is_kept ? c.whole : tile, f);
    }
}

}  // namespace attune::generators::inline cpu
