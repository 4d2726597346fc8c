#include "cpu/recurrence_gradient.hpp"

#include <algorithm>
#include <numeric>

/// States and their cotangents are walked through by few value channels at a time, so that the matrix at hand stays in
/// the first level of cache.
namespace attune::generators::inline cpu {
using namespace Halide;

namespace {

constexpr int most_vectors = 4;  ///< of value channels at a time: as many sums wait for each other

int vectors_of(int value_depth, int lanes) {
    int vectors = most_vectors;
    while (value_depth / lanes % vectors != 0) --vectors;
    return vectors;
}

}  // namespace

/// Phases stay inside the loop over tokens, the loop over value channels outside of it.
void recurrence_gradient::schedule_walk(walk& of) const {
    const int vectors = vectors_of(size_.value_depth, size_.lanes);
    Var eo("eo"), ei("ei"), ev("ev");
    Func states = of.states;
    states.bound(x_.e, 0, size_.value_depth);
    for (int update = 0; update < states.num_update_definitions(); ++update) {
        Stage stage = states.update(update);
        stage.split(x_.e, eo, ei, size_.lanes * vectors).split(ei, ei, ev, size_.lanes).vectorize(ev).unroll(ei);
        const std::vector<RVar> loops = states.rvars(update);
        std::vector<VarOrRVar> order{ev, ei};
        for (const RVar& each : loops) order.emplace_back(each);
        order.emplace_back(eo);
        stage.reorder(order);
        if (loops.size() > 1) stage.unroll(loops[1]);
    }
}

void recurrence_gradient::schedule_parts() {
    Func all = parts_.all, of_chunk = parts_.of_chunk, in_lanes = parts_.in_lanes, row_sums = parts_.row_sums;
    const Var task("task");
    // Schedule
    all.compute_root().bound(x_.x, 0, parts_.width).bound(x_.i, 0, size_.tokens).vectorize(x_.x, size_.lanes);
    all.fuse(x_.h, x_.b, task).parallel(task);
    of_chunk.compute_at(all, x_.c).bound(x_.i, 0, size_.tokens);
    for (walk* each : {&walks_.forward, &walks_.back}) each->states.compute_at(all, task), schedule_walk(*each);
    for (walk* each : {&walks_.states, &walks_.cotangents}) each->states.compute_at(all, x_.c), schedule_walk(*each);
    if (in_lanes.defined()) {
        const int parts = static_cast<int>(parts_.along_depth.size());
        in_lanes.compute_at(all, x_.c).bound(x_.lane, 0, size_.lanes).bound(x_.p, 0, parts);
        in_lanes.vectorize(x_.lane, size_.lanes).unroll(x_.p);
        in_lanes.update()
            .reorder(x_.lane, x_.p, parts_.vectors.x, x_.d, x_.i)
            .vectorize(x_.lane, size_.lanes)
            .unroll(x_.p);
        row_sums.compute_at(all, x_.c);
        row_sums.update().atomic().vectorize(parts_.lane.x);
    }
    if (parts_.erased.defined()) parts_.erased.compute_at(all, x_.c);
}

void recurrence_gradient::schedule() {
    const Var task("task");
    // Schedule
    for (Func& each : of_tokens_) {
        const std::vector<Var> axes = each.args();
        each.compute_root();
        for (int update = -1; update < each.num_update_definitions(); ++update) {
            Stage stage = update < 0 ? Stage(each) : each.update(update);
            stage.fuse(x_.h, x_.b, task).parallel(task);
        }
        if (axes.size() == 4) {
            const int width = axes[0].name() == x_.e.name() ? size_.value_depth : size_.depth;
            each.bound(axes[0], 0, width).vectorize(axes[0], std::gcd(width, size_.lanes));
        }
    }
    if (!parts_.first_number.empty()) schedule_parts();
    if (walks_.first.states.defined()) {
        Func first = walks_.first.states;
        first.compute_root();
        schedule_walk(walks_.first);
        for (int update = 0; update < first.num_update_definitions(); ++update)
            first.update(update).fuse(x_.h, x_.b, task).parallel(task);
    }
    for (stage& each : stages_) {
        Stage loops = each.update == 0 ? Stage(each.gradient) : each.gradient.update(each.update - 1);
        if (each.by_channels) loops.vectorize(each.along.front(), size_.lanes, TailStrategy::GuardWithIf);
        const std::size_t others = each.along.size() - (each.by_channels ? 1 : 0);
        if (each.along.empty()) loops.unscheduled();  // places that only the terms know
        if (others == 0) continue;
        if (others == 1) {
            loops.parallel(each.along.back());
            continue;
        }
        loops.fuse(each.along[each.along.size() - 2], each.along.back(), task).parallel(task);
    }
}

}  // namespace attune::generators::inline cpu
