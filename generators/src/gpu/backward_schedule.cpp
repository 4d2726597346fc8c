#include "gpu/backward.hpp"
#include "gpu/shared_schedules.hpp"
#include "kernel/gpu_schedule.hpp"
#include "passes/gpu_passes.hpp"
#include "passes/skip_blocks.hpp"

#include <algorithm>

namespace attune::generators::inline gpu {
using namespace Halide;

namespace {

constexpr int warp = 32, warps = 8;

/// The loops of a pass: a block of threads has a block of positions of its own side, and visits those of the other one.
class side_loops {
public:
    side_loops(const gpu_gradient& cut, const kernel_frame& f, gradient_passes::side_pass& its)
        : cut_(cut),
          f_(f),
          its_(its),
          of_queries_(its.planned.of_queries),
          threads_(cut, f.request.depths, of_queries_) {}

    void schedule();

private:
    int block(bool of_query) const { return of_query ? cut_.query_block : cut_.key_block; }
    void schedule_rows(Func rows, const Var& channel, int channels, bool of_query);
    void schedule_products();
    void schedule_tiles();
    void in_tiles(Func pairs);

    const gpu_gradient& cut_;
    const kernel_frame& f_;
    gradient_passes::side_pass& its_;
    const bool of_queries_;
    const side_threads threads_;
    LoopLevel head_, visit_;  ///< a head whose pairs are added up; a block that is visited
};

/// Rows that all threads copy into shared memory, positions side by side there, channels side by side where they are
/// read. Those of the own side serve all visits for a head.
void side_loops::schedule_rows(Func rows, const Var& channel, int channels, bool of_query) {
    const Var position = of_query ? f_.qi : f_.ki, across("across"), down("down");
    const int positions = block(of_query);
    // Schedule
    rows.compute_at(of_query == of_queries_ ? head_ : visit_)
        .store_in(MemoryType::GPUShared)
        .bound_extent(of_query ? f_.qt : f_.kb, 1)
        .bound_extent(f_.h, 1)
        .bound_extent(f_.b, 1)
        .bound_extent(position, positions)
        .bound_extent(channel, channels)
        .reorder_storage(position, channel)
        .align_storage(position, padded(positions));
    rows.split(channel, channel, across, std::min(threads_.across, channels), TailStrategy::GuardWithIf)
        .split(position, position, down, std::min(threads_.down, positions), TailStrategy::GuardWithIf)
        .reorder(channel, position, across, down)
        .gpu_threads(across, down);
}

/// A tile of pairs a thread: of the own side the positions whose sums it has.
void side_loops::in_tiles(Func pairs) {
    const Var x("x"), y("y");
    const Var &of_x = of_queries_ ? f_.ki : f_.qi, &of_y = of_queries_ ? f_.qi : f_.ki;
    // Schedule
    pairs.compute_at(visit_)
        .store_in(MemoryType::GPUShared)
        .bound_extent(f_.qi, cut_.query_block)
        .bound_extent(f_.ki, cut_.key_block)
        .bound_extent(f_.qt, 1)
        .bound_extent(f_.kb, 1)
        .bound_extent(f_.h, 1)
        .bound_extent(f_.b, 1)
        .reorder_storage(of_x, of_y)  // what is added up lies side by side
        .align_storage(of_x, padded(block(!of_queries_)));
    pairs.split(of_x, x, of_x, of_queries_ ? cut_.key_tile : cut_.query_tile)
        .split(of_y, y, of_y, of_queries_ ? cut_.query_tile : cut_.key_tile)
        .reorder(of_x, of_y, x, y)
        .gpu_threads(x, y)
        .unroll(of_x)
        .unroll(of_y);
}

void side_loops::schedule_products() {
    for (pair_block::contraction& c : its_.pairs.contractions) {
        const auto depth = as_const_int(c.depth);
        if (depth) {  // else it is known in the call only: rows are read where they lie
            schedule_rows(c.panel, pair_block::in_panel, static_cast<int>(*depth), true);
            schedule_rows(c.keys, pair_block::in_panel, static_cast<int>(*depth), false);
        }
        if (c.is_kept) in_tiles(c.whole);
        const Func user = c.is_kept                             ? c.whole
                          : its_.pairs.tiles.contains(c.reader) ? its_.pairs.tiles.at(c.reader)
                                                                : Func();
        if (!user.defined()) continue;
        // Schedule
        c.sums.compute_at(user, Var("x")).unroll(f_.qi).unroll(f_.ki);
        c.sums.update().reorder(f_.qi, f_.ki, c.channels.x).unroll(f_.qi).unroll(f_.ki);
        if (depth) c.sums.update().unroll(c.channels.x, cut_.depth_unroll);
    }
}

void side_loops::schedule_tiles() {
    for (const auto& [node, tile] : its_.pairs.tiles) in_tiles(tile);
    for (pair_block::side_rows& rows : its_.pairs.copies) schedule_rows(rows.copy, f_.d, rows.width, rows.of_query);
}

void side_loops::schedule() {
    const int across = threads_.across, positions = threads_.positions;
    Func &made = its_.made, &state = its_.state;
    const Var &own = its_.own, &thread = its_.thread, y("y");
    const int numbers = its_.sums.back().first + its_.sums.back().count, own_block = block(of_queries_);
    // Schedule
    made.compute_root()
        .bound_extent(its_.number, numbers)
        .bound_extent(thread, across)
        .bound_extent(own, own_block)
        .split(own, y, own, positions)
        .reorder(its_.number, own, thread, y, its_.own_block, f_.h, f_.b)
        .gpu_blocks(its_.own_block, f_.h, f_.b)
        .gpu_threads(thread, y)
        .unroll(its_.number)
        .unroll(own);
    state.compute_at(made, its_.own_block)
        .store_in(MemoryType::Register)
        .bound_extent(thread, across)
        .bound_extent(own, own_block)
        .bound_extent(its_.own_block, 1)
        .bound_extent(f_.h, 1)
        .bound_extent(f_.b, 1)
        .split(own, y, own, positions)
        .reorder(own, thread, y)
        .gpu_threads(thread, y)
        .unroll(own);
    state.update()
        .split(own, y, own, positions)
        .reorder(own, thread, y, its_.blocks.x, its_.blocks.y)
        .gpu_threads(thread, y)
        .unroll(own)
        .never_partition(std::vector<VarOrRVar>{its_.blocks.x});  // one loop, for skip_blocks to guard
    head_ = LoopLevel(state, its_.blocks.y), visit_ = LoopLevel(state, its_.blocks.x);
    schedule_products();
    schedule_tiles();
    for (gradient_passes::added_sum& added : its_.sums) {
        added.product.compute_at(state, thread).unroll(its_.channel).unroll(own);
        added.product.update()
            .reorder(its_.channel, own, added.added.x)
            .unroll(its_.channel)
            .unroll(own)
            .unroll(added.added.x, 4);
    }
}

/// One number a thread: the first two axes are shared out among a block's threads.
void one_a_thread(Stage made, std::vector<Var> axes) {
    if (axes.empty()) {
        made.gpu_single_thread();
        return;
    }
    const Var x("x"), y("y"), block("block");
    // Schedule
    made.split(axes[0], axes[0], x, warp, TailStrategy::GuardWithIf);
    if (axes.size() == 1) {
        made.gpu_blocks(axes[0]).gpu_threads(x);
        return;
    }
    made.split(axes[1], axes[1], y, warps, TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> loops{x, y};
    loops.insert(loops.end(), axes.begin(), axes.end());
    made.reorder(loops).fuse(axes[0], axes[1], block);
    for (std::size_t axis = 3; axis < axes.size(); ++axis) made.fuse(axes[2], axes[axis], axes[2]);
    made.gpu_blocks(block).gpu_threads(x, y);
    if (axes.size() > 2) made.gpu_blocks(axes[2]);
}
void one_a_thread(Func all) {
    all.compute_root();
    one_a_thread(all, all.args());
}

/// An element of a gradient that is summed: the first definition is 0.
void schedule_sums(gradient_passes& its, Func gradient) {
    one_a_thread(gradient);
    for (int stage = 1; stage <= gradient.num_update_definitions(); ++stage) {
        const auto found = std::ranges::find_if(its.placed, [&](const gradient_terms::placed_term& term) {
            return term.gradient.name() == gradient.name() && term.stage == stage;
        });
        if (found == its.placed.end()) {
            one_a_thread(gradient.update(stage - 1), gradient.args());
            continue;
        }
        const gradient_terms::placed_term& term = *found;
        // Loops that decide a place run in parallel. Halide cannot prove that this is right.
        Stage update = gradient.update(term.stage - 1);
        update.allow_race_conditions();
        const int first = static_cast<int>(term.first_parallel), dimensions = term.loops.dimensions();
        if (first >= dimensions) {
            update.gpu_single_thread();
            continue;
        }
        RVar all = term.loops[first];
        for (int next = first + 1; next < dimensions; ++next) {
            const RVar fused("fused");
            update.fuse(all, term.loops[next], fused);
            all = fused;
        }
        const RVar thread("thread");
        // Schedule
        update.split(all, all, thread, warp, TailStrategy::GuardWithIf).gpu_blocks(all).gpu_threads(thread);
    }
}

}  // namespace

void apply(const gpu_gradient& cut, gradient_passes& its, const kernel_frame& f, Pipeline& gradients) {
    one_a_thread(its.visits);
    for (gradient_passes::side_pass& side : its.sides) {
        for (pair_block::hoisted_number& each : side.pairs.hoisted) one_a_thread(each.values);
        side_loops(cut, f, side).schedule();
    }
    for (gradient_passes::element_pass& pass : its.elements) {
        for (pair_block::hoisted_number& each : pass.pairs.hoisted) one_a_thread(each.values);
        for (pair_block::contraction& c : pass.pairs.contractions) c.sums.compute_at(pass.gradient, pass.others[0]);
    }
    for (const auto& [node, kept] : its.of_positions) one_a_thread(kept.values);
    for (auto& [node, added] : its.added_first) {
        one_a_thread(added.sum);
        one_a_thread(added.sum.update(), added.sum.args());
    }
    for (gradient_passes::written_gradient& each : its.written) {
        for (int dim = 0; dim < each.gradient.dimensions(); ++dim) each.gradient.output_buffer().dim(dim).set_min(0);
        schedule_sums(its, each.sum);
        if (each.gradient.name() != each.sum.name()) one_a_thread(each.gradient);
    }
    for (const gradient_passes::side_pass& side : its.sides)
        gradients.add_custom_lowering_pass(new private_state({side.state.name()}));
    for (const gradient_passes::side_pass& side : its.sides)
        gradients.add_custom_lowering_pass(
            new skip_blocks(stage_loop(side.state, side.blocks.x),
                            [table = its.visits.name()](const Internal::Load& load) { return load.name == table; }));
    gradients.add_custom_lowering_pass(new halves_as_words);
}

}  // namespace attune::generators::inline gpu
