#include "cpu/precomputed_schedule.hpp"

namespace attune::generators {
using namespace Halide;

namespace {

constexpr int most_steps_written_out = 8;

/// Loops over all axes but the innermost, in parallel.
template <class Stages> Var in_tasks(Stages of, const std::vector<Var>& axes) {
    const Var task("task");
    of.fuse(axes[1], axes[2], task);
    for (std::size_t a = 3; a < axes.size(); ++a) of.fuse(task, axes[a], task);
    of.parallel(task);
    return task;
}

void schedule_reals(precomputed_tensor& its, int lanes, const precomputed_tensor* chooser, const Var& row) {
    // Schedule
    const Var& n = its.axes[0];
    const bool is_written = its.output.defined();
    its.result.vectorize(n, lanes, is_written ? TailStrategy::GuardWithIf : TailStrategy::Auto);
    if (is_written) {
        for (int dim = 0; dim < its.output.dimensions(); ++dim) its.output.output_buffer().dim(dim).set_min(0);
        if (its.output.name() != its.result.name())
            in_tasks(its.output.vectorize(n, lanes, TailStrategy::GuardWithIf), its.axes);
    }
    if (chooser) {
        its.result.compute_at(chooser->result, row);
    } else {
        its.result.compute_root();
        in_tasks(its.result.update(), its.axes);
    }
    if (its.dots.empty())
        its.result.update().vectorize(its.along.x, lanes);
    else if (chooser)
        its.result.update().unscheduled();
    for (precomputed_tensor::dot& each : its.dots) {
        each.partial.compute_at(its.result, its.along.x).bound_extent(each.lane, its.width).vectorize(each.lane);
        each.partial.update().reorder(each.lane, each.steps).vectorize(each.lane);
        const auto steps = Internal::as_const_int(Internal::simplify(each.steps.x.extent()));
        if (steps && *steps <= most_steps_written_out) each.partial.update().unroll(each.steps.x);
        each.sum.compute_at(its.result, its.along.x);
    }
}

Var schedule_choice(precomputed_tensor& its, int lanes) {
    // Schedule
    const Var& n = its.axes[0];
    its.result.compute_root();
    const Var row = in_tasks(its.result.vectorize(n, lanes), its.axes);
    for (Func* each : {&its.ordered, &its.shares})
        if (each->defined()) {
            each->compute_at(its.result, row).vectorize(n, lanes);
            each->update().vectorize(its.along.x, lanes);
        }
    for (precomputed_tensor::tally& each : its.tallies) {
        each.partial.compute_at(its.result, row)
            .bound_extent(its.lane, its.width)
            .bound_extent(its.which, each.conditions)
            .vectorize(its.lane)
            .unroll(its.which);
        each.partial.update().reorder(its.lane, its.which, each.steps).vectorize(its.lane).unroll(its.which);
        each.sum.compute_at(its.result, row).bound_extent(its.which, each.conditions);
        each.sum.update().atomic().vectorize(each.lanes.x);
    }
    for (Func& threshold : its.thresholds) threshold.compute_at(its.result, row);
    its.ties.compute_at(its.result, row);
    return row;
}

}  // namespace

void schedule_precomputed(precomputed_tensors& its, int lanes) {
    std::vector<Var> rows(its.all.size());
    for (std::size_t i = 0; i < its.all.size(); ++i)
        if (its.all[i].chooses()) rows[i] = schedule_choice(its.all[i], lanes);
    for (precomputed_tensor& each : its.all)
        if (!each.chooses()) {
            const bool in_rows = each.row_of >= 0;
            schedule_reals(each, lanes, in_rows ? &its.all[each.row_of] : nullptr, in_rows ? rows[each.row_of] : Var());
        }
}

}  // namespace attune::generators
