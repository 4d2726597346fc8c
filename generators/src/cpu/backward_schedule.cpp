#include "cpu/backward.hpp"

#include <numeric>

namespace attune::generators {
using namespace Halide;

void backward_sweep::schedule() {
    const Var dx("dx");
    const RVar ro("ro"), rx("rx");
    // Schedule
    visits_.compute_root().vectorize(f_.kb, lanes_);
    sums_.compute_root().bound(f_.d, 0, width_).vectorize(f_.d, lanes_).parallel(f_.b);
    sums_.update()
        .reorder(f_.d, row_, which_, in_chunk_, of_block_, chunk_, of_group_, f_.b)
        .parallel(f_.b)
        .split(row_, ro, rx, row_tile_)
        .split(f_.d, f_.d, dx, channel_tile_)
        .reorder(dx, rx, f_.d, ro, which_, in_chunk_, of_block_, chunk_, of_group_)
        .vectorize(dx, lanes_)
        .unroll(dx)
        .unroll(rx)
        .unroll(which_)
        .never_partition(std::vector<VarOrRVar>{in_chunk_, of_block_});
    product_.compute_at(sums_, f_.d)
        .bound_extent(c_, row_tile_)
        .bound_extent(w_, 1)
        .bound_extent(f_.kb, 1)
        .bound_extent(f_.qt, 1)
        .vectorize(f_.d, lanes_)
        .unroll(f_.d)
        .unroll(c_);
    product_.update().reorder(f_.d, c_, within_.x).vectorize(f_.d, lanes_).unroll(f_.d).unroll(c_);
    const LoopLevel at_task(sums_, f_.b), at_block(sums_, of_block_), at_key_block(sums_, in_chunk_);
    for (Func f : {keys_, last_key_}) f.compute_at(at_task);
    for (const hoisted& each : hoisted_) {
        Func values = each.values;
        if (each.of_query)
            values.compute_at(at_block).bound_extent(f_.qi, block_).bound_extent(f_.qt, 1).vectorize(f_.qi, lanes_);
        else if (each.of_key)
            values.compute_at(at_key_block).bound_extent(f_.ki, block_).bound_extent(f_.kb, 1).vectorize(f_.ki, lanes_);
        else
            values.compute_at(sums_, of_group_);
    }
    for (const side_rows& each : copies_) {
        Func rows = each.copy;
        rows.compute_at(each.of_query ? at_block : at_key_block).hoist_storage(at_task);
        rows.bound_extent(each.of_query ? f_.qi : f_.ki, block_).bound_extent(each.of_query ? f_.qt : f_.kb, 1);
        rows.bound_extent(f_.d, width_).vectorize(f_.d, lanes_);
    }
    for (contraction& each : contractions_) schedule_contraction(each, at_block, at_key_block, at_task);
    for (auto& [node, tile] : tiles_) schedule_tile(tile, node, at_key_block, at_task);
    schedule_outputs();
}

/// A block of pairs, so many queries in lanes and keys at a time.
void backward_sweep::schedule_pairs(Func pairs, const LoopLevel& at, const LoopLevel& storage) {
    const Var qx("qx"), kx("kx");
    // Schedule
    pairs.compute_at(at)
        .hoist_storage(storage)
        .bound_extent(f_.qi, block_)
        .bound_extent(f_.ki, block_)
        .bound_extent(f_.kb, 1)
        .bound_extent(f_.qt, 1)
        .split(f_.qi, f_.qi, qx, cut_.query_tile)
        .split(f_.ki, f_.ki, kx, cut_.key_tile)
        .reorder(qx, kx, f_.qi, f_.ki)
        .vectorize(qx, lanes_)
        .unroll(qx)
        .unroll(kx);
}

void backward_sweep::schedule_contraction(contraction& c, const LoopLevel& block, const LoopLevel& key_block,
                                          const LoopLevel& task) {
    const Var nx("nx");
    // Schedule
    c.panel.compute_at(block).bound_extent(f_.qi, block_).bound_extent(f_.qt, 1);
    if (const auto depth = as_const_int(c.depth)) {
        const int step = std::gcd(static_cast<int>(*depth), lanes_);
        c.panel.bound_extent(n_, static_cast<int>(*depth)).split(n_, n_, nx, step).reorder(f_.qi, nx, n_).unroll(nx);
    } else {
        c.panel.reorder(f_.qi, n_);
    }
    c.panel.vectorize(f_.qi, lanes_);
    if (block_ % 64 == 0) c.panel.align_storage(f_.qi, block_ + 2 * lanes_);  // or rows lie in few sets of the cache
    if (c.keys.defined())
        c.keys.compute_at(key_block).hoist_storage(task).bound_extent(f_.ki, block_).bound_extent(f_.kb, 1);
    if (c.is_kept) schedule_pairs(c.whole, key_block, task);
}

void backward_sweep::schedule_tile(Func tile, int node, const LoopLevel& key_block, const LoopLevel& task) {
    schedule_pairs(tile, key_block, task);
    // Schedule: sums in registers, where they are used.
    for (contraction& c : contractions_) {
        const bool here = c.is_kept ? node == plan_.tiles.front() : c.reader == node;
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

void backward_sweep::schedule_outputs() {
    const Var all("all");
    // Schedule
    for (Func& gradient : outputs)
        for (int dim = 0; dim < gradient.dimensions(); ++dim) gradient.output_buffer().dim(dim).set_min(0);
    for (made_of_sums& each : products_) {
        each.gradient.output_buffer().dim(0).set_bounds(0, each.depth);
        for (Stage stage : {Stage(each.gradient), each.gradient.update()})
            stage.vectorize(f_.d, lanes_, TailStrategy::GuardWithIf).fuse(f_.h, f_.b, all).parallel(all);
    }
}

}  // namespace attune::generators
