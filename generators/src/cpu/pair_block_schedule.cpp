#include "cpu/pair_block.hpp"

#include <numeric>

namespace attune::generators {
using namespace Halide;

void pair_block::schedule(const levels& at) {
    // Schedule
    for (Func f : {keys_, last_key_}) f.compute_at(at.task);
    for (const hoisted& each : hoisted_) {
        Func values = each.values;
        if (each.of_query)
            values.compute_at(at.block).bound_extent(f_.qi, tasks_.block).bound_extent(f_.qt, 1);
        else if (each.of_key)
            values.compute_at(at.key_block).bound_extent(f_.ki, tasks_.block).bound_extent(f_.kb, 1);
        else
            values.compute_at(at.group);
        if (each.of_query || each.of_key) values.vectorize(each.of_query ? f_.qi : f_.ki, lanes_);
    }
    for (const side_rows& each : copies_) {
        Func rows = each.copy;
        rows.compute_at(each.of_query ? at.block : at.key_block).hoist_storage(at.task);
        rows.bound_extent(each.of_query ? f_.qi : f_.ki, tasks_.block).bound_extent(each.of_query ? f_.qt : f_.kb, 1);
        rows.bound_extent(f_.d, each.width).vectorize(f_.d, lanes_);
    }
    for (contraction& each : contractions_) schedule_contraction(each, at);
    for (auto& [node, tile] : tiles) schedule_tile(tile, node, at);
}

/// A block of pairs, so many queries in lanes and keys at a time.
void pair_block::schedule_pairs(Func pairs, const levels& at) {
    const Var qx("qx"), kx("kx");
    // Schedule
    pairs.compute_at(at.key_block)
        .hoist_storage(at.task)
        .bound_extent(f_.qi, tasks_.block)
        .bound_extent(f_.ki, tasks_.block)
        .bound_extent(f_.kb, 1)
        .bound_extent(f_.qt, 1)
        .split(f_.qi, f_.qi, qx, cut_.query_tile)
        .split(f_.ki, f_.ki, kx, cut_.key_tile)
        .reorder(qx, kx, f_.qi, f_.ki)
        .vectorize(qx, lanes_)
        .unroll(qx)
        .unroll(kx);
}

void pair_block::schedule_contraction(contraction& c, const levels& at) {
    const Var nx("nx");
    const auto depth = as_const_int(c.depth);
    // Schedule
    c.panel.compute_at(at.block).bound_extent(f_.qi, tasks_.block).bound_extent(f_.qt, 1);
    if (depth) {
        const int step = std::gcd(static_cast<int>(*depth), lanes_);
        c.panel.bound_extent(n_, static_cast<int>(*depth)).split(n_, n_, nx, step).reorder(f_.qi, nx, n_).unroll(nx);
    } else {
        c.panel.reorder(f_.qi, n_);
    }
    c.panel.vectorize(f_.qi, lanes_);
    if (tasks_.block % 64 == 0)
        c.panel.align_storage(f_.qi, tasks_.block + 2 * lanes_);  // or rows lie in few sets of the cache
    if (c.keys.defined()) {
        c.keys.compute_at(at.key_block).hoist_storage(at.task);
        c.keys.bound_extent(f_.ki, tasks_.block).bound_extent(f_.kb, 1);
        if (depth)
            c.keys.bound_extent(n_, static_cast<int>(*depth)).vectorize(n_, std::gcd(static_cast<int>(*depth), lanes_));
    }
    if (c.is_kept) schedule_pairs(c.whole, at);
}

void pair_block::schedule_tile(Func tile, int node, const levels& at) {
    schedule_pairs(tile, at);
    // Schedule: sums in registers, where they are used.
    for (contraction& c : contractions_) {
        const bool here = c.is_kept ? node == wanted_.front() : c.reader == node;
        if (!here) continue;
        c.sums.compute_at(c.is_kept ? c.whole : tile, f_.qi)
            .bound_extent(f_.qi, cut_.query_tile)
            .bound_extent(f_.ki, cut_.key_tile)
            .bound_extent(f_.kb, 1)
            .bound_extent(f_.qt, 1)
            .vectorize(f_.qi, lanes_)
            .unroll(f_.qi)
            .unroll(f_.ki);
        c.sums.update().reorder(f_.qi, f_.ki, c.channels.x).vectorize(f_.qi, lanes_).unroll(f_.qi).unroll(f_.ki);
        if (const auto depth = as_const_int(c.depth))
            c.sums.update().unroll(c.channels.x, std::gcd(static_cast<int>(*depth), cut_.depth_unroll));
    }
}

}  // namespace attune::generators
