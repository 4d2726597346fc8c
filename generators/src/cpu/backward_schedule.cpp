#include "cpu/backward.hpp"

namespace attune::generators {
using namespace Halide;

std::vector<std::string> backward_sweep::guarded_loops() const {
    std::vector<std::string> all;
    if (!plan_.sums.empty()) all.push_back(sums_.name() + ".s1." + in_chunk_.name());
    for (const pair_pass& pass : passes_)
        all.push_back(pass.gradient.name() + ".s" + std::to_string(pass.stage) + "." +
                      pass.loops[static_cast<int>(pass.key_block)].name());
    return all;
}

void backward_sweep::schedule() {
    const Var dx("dx");
    const RVar ro("ro"), rx("rx");
    visits_.compute_root().vectorize(f_.kb, lanes_);
    schedule_outputs();
    if (plan_.sums.empty()) return;
    // Schedule
    sums_.compute_root().bound(f_.d, 0, width_).vectorize(f_.d, lanes_).parallel(f_.b);
    sums_.update()
        .reorder(f_.d, row_, which_, in_chunk_, of_block_, chunk_, of_group_, f_.b)
        .parallel(f_.b)
        .split(row_, ro, rx, cut_.sum_rows)
        .split(f_.d, f_.d, dx, cut_.sum_channels)
        .reorder(dx, rx, f_.d, ro, which_, in_chunk_, of_block_, chunk_, of_group_)
        .vectorize(dx, lanes_)
        .unroll(dx)
        .unroll(rx)
        .unroll(which_)
        .never_partition(std::vector<VarOrRVar>{in_chunk_, of_block_});
    product_.compute_at(sums_, f_.d)
        .bound_extent(c_, cut_.sum_rows)
        .bound_extent(w_, 1)
        .bound_extent(f_.kb, 1)
        .bound_extent(f_.qt, 1)
        .vectorize(f_.d, lanes_)
        .unroll(f_.d)
        .unroll(c_);
    product_.update().reorder(f_.d, c_, within_.x).vectorize(f_.d, lanes_).unroll(f_.d).unroll(c_);
    pairs_.schedule({{sums_, f_.b}, {sums_, of_group_}, {sums_, of_block_}, {sums_, in_chunk_}});
}

/// What decides a place is done in parallel, which Halide cannot know to be right.
void backward_sweep::schedule_loops(Func gradient, int stage, const RDom& loops, std::size_t first_parallel) {
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

void backward_sweep::schedule_outputs() {
    const Var all("all");
    // Schedule
    for (Func& gradient : outputs)
        for (int dim = 0; dim < gradient.dimensions(); ++dim) gradient.output_buffer().dim(dim).set_min(0);
    for (copied_sums& each : copied_) {
        each.gradient.output_buffer().dim(0).set_bounds(0, each.depth);
        const bool is_output = each.sum.name() == each.gradient.name();
        for (Stage stage : {Stage(each.sum), each.sum.update()}) {
            stage.vectorize(f_.d, lanes_, TailStrategy::GuardWithIf);
            if (is_output) stage.fuse(f_.h, f_.b, all).parallel(all);
        }
        if (is_output) continue;
        each.sum.compute_at(each.gradient, i_);
        each.gradient.vectorize(f_.d, lanes_, TailStrategy::GuardWithIf).fuse(f_.h, f_.b, all).parallel(all);
    }
    for (rounded_sums& each : rounded_) {
        if (each.sum.name() == each.gradient.name()) continue;
        each.sum.compute_root();
        each.gradient.vectorize(each.gradient.args()[0], lanes_, TailStrategy::GuardWithIf)
            .parallel(each.gradient.args().back());
    }
    for (Func& values : of_positions_) values.compute_root().vectorize(i_, lanes_).parallel(f_.b);
    for (const placed_term& each : placed_) schedule_loops(each.gradient, each.stage, each.loops, each.first_parallel);
    for (pair_pass& pass : passes_) {
        const auto at = [&](std::size_t loop) { return LoopLevel(pass.gradient, pass.loops[static_cast<int>(loop)]); };
        pass.pairs.schedule({at(pass.group), at(pass.group), at(pass.block), at(pass.key_block)});
        schedule_loops(pass.gradient, pass.stage, pass.loops, pass.first_parallel);
    }
}

}  // namespace attune::generators
