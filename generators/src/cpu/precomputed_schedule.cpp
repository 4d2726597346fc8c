#include "cpu/precomputed_schedule.hpp"

#include "cpu/register_tile.hpp"

#include <algorithm>

namespace attune::generators::inline cpu {
using namespace Halide;

namespace {

constexpr int most_steps_written_out = 8, keys_of_task = 4096, elements_of_task = 960;
constexpr int tiles_of_task = 4, rows_of_codes = 64;

/// A task reuses the turned factor.
int rows_of_products(const level& cpu) { return tile_of_sums(cpu).rows * tiles_of_task; }

/// Whether products are those of a sum within a sum, whose rows are the tensor's own elements.
bool has_rows_of_elements(const precomputed_tensor& its) {
    return !its.products.empty() && its.products.front().outer >= 0;
}

int rows_of_task(const precomputed_tensor& its, const level& cpu) {
    if (its.precomputed.types().front() == Int(8)) return its.axes.size() > 3 ? rows_of_codes : 1;  // rows of a key
    return its.products.empty() || has_rows_of_elements(its) ? 1 : rows_of_products(cpu);
}

/// Loops over all axes but the innermost, in parallel; a task has some rows.
struct loops_of_rows {
    Var row, task{"task"};
};
template <class Stages> loops_of_rows in_tasks(Stages of, const std::vector<Var>& axes, int rows = 1) {
    loops_of_rows all;
    Var of_rows = axes[1];
    if (rows > 1) {
        all.row = Var("row"), of_rows = Var("of_rows");
        of.split(axes[1], of_rows, all.row, rows, TailStrategy::GuardWithIf);
    }
    of.fuse(of_rows, axes[2], all.task);
    for (std::size_t a = 3; a < axes.size(); ++a) of.fuse(all.task, axes[a], all.task);
    of.parallel(all.task);
    if (rows == 1) all.row = all.task;
    return all;
}

/// Products in tiles that fill most of the vector registers. What is turned is made once, or for each `row`.
void schedule_products(precomputed_tensor& its, const level& cpu, const LoopLevel& task, const LoopLevel* row) {
    const Var nv("nv"), iv("iv");
    const tile_of_sums tile(cpu);
    for (precomputed_tensor::product& each : its.products) {
        // Schedule
        const Var &n = each.axes[0], &i = each.axes[1];
        for (Func& turned : each.turned) {
            const std::vector<Var> all = turned.args();
            turned.bound_extent(all[0], tile.columns).vectorize(all[0], cpu.lanes);
            if (row) {
                turned.compute_at(*row);
                continue;
            }
            turned.compute_root();
            turned.fuse(all[2], all[3], all[2]);
            for (std::size_t a = 4; a < all.size(); ++a) turned.fuse(all[2], all[a], all[2]);
            turned.parallel(all[2]);
        }
        each.sum.compute_at(task)
            .align_bounds(n, tile.columns)
            .align_bounds(i, tile.rows)
            .split(n, n, nv, tile.columns)
            .split(i, i, iv, tile.rows)
            .reorder(nv, iv, i, n)
            .vectorize(nv, cpu.lanes)
            .unroll(nv)
            .unroll(iv);
        const register_tile sums{n, i, cpu.lanes};
        sums.write_out(each.tile.compute_at(each.sum, i));
        sums.add(each.tile.update(), each.summed);
    }
}

/// `by_elements`: the tasks of a row of its own are some elements each.
void schedule_reals(precomputed_tensor& its, const level& cpu, int lanes, const precomputed_tensor* chooser,
                    const loops_of_rows& of_chooser, bool by_elements) {
    // Schedule
    const Var& n = its.axes[0];
    const bool is_written = its.written.defined(), in_steps = its.precomputed.has_update_definition();
    if (in_steps || its.dots.empty())
        its.precomputed.vectorize(n, lanes, is_written ? TailStrategy::GuardWithIf : TailStrategy::Auto);
    if (is_written) {
        for (int dim = 0; dim < its.written.dimensions(); ++dim) its.written.output_buffer().dim(dim).set_min(0);
        if (its.written.name() != its.precomputed.name())
            in_tasks(its.written.vectorize(n, lanes, TailStrategy::GuardWithIf), its.axes);
    }
    Stage elements = in_steps ? its.precomputed.update() : Stage(its.precomputed);
    const RVar some("some"), few("few");
    if (by_elements && in_steps) elements.split(its.along.x, some, its.along.x, elements_of_task).parallel(some);
    if (has_rows_of_elements(its)) elements.split(its.along.x, few, its.along.x, rows_of_products(cpu));
    LoopLevel tiles(its.precomputed, few), row = LoopLevel::root();
    if (chooser) {
        row = LoopLevel(chooser->precomputed, its.by_row ? of_chooser.row : of_chooser.task);
        its.precomputed.compute_at(row);
        if (!has_rows_of_elements(its)) tiles = LoopLevel(chooser->precomputed, of_chooser.task);
    } else {
        its.precomputed.compute_root();
        const loops_of_rows own = in_tasks(elements, its.axes, rows_of_task(its, cpu));
        if (!has_rows_of_elements(its)) tiles = LoopLevel(its.precomputed, own.task);
    }
    schedule_products(its, cpu, tiles, chooser && has_rows_of_elements(its) ? &row : nullptr);
    if (in_steps && its.dots.empty())
        elements.vectorize(its.along.x, lanes);
    else if (in_steps && chooser && !has_rows_of_elements(its))
        elements.unscheduled();  // its sums are the vectors
    const LoopLevel element = in_steps ? LoopLevel(its.precomputed, its.along.x) : LoopLevel(its.precomputed, n);
    for (precomputed_tensor::dot& each : its.dots) {
        each.partial.compute_at(element).bound_extent(each.lane, its.width).vectorize(each.lane);
        each.partial.update().reorder(each.lane, each.steps).vectorize(each.lane);
        const auto steps = Internal::as_const_int(Internal::simplify(each.steps.x.extent()));
        if (steps && *steps <= most_steps_written_out) each.partial.update().unroll(each.steps.x);
        each.sum.compute_at(element);
    }
}

loops_of_rows schedule_choice(precomputed_tensor& its, int lanes, int rows) {
    // Schedule
    const Var& n = its.axes[0];
    its.precomputed.compute_root();
    const loops_of_rows loops = in_tasks(its.precomputed.vectorize(n, lanes), its.axes, rows);
    const Var& row = loops.row;
    for (Func* each : {&its.ordered, &its.shares})
        if (each->defined()) {
            each->compute_at(its.precomputed, row).vectorize(n, lanes);
            each->update().vectorize(its.along.x, lanes);
        }
    for (precomputed_tensor::tally& each : its.tallies) {
        each.partial.compute_at(its.precomputed, row)
            .bound_extent(its.lane, its.width)
            .bound_extent(its.condition, each.conditions)
            .vectorize(its.lane)
            .unroll(its.condition);
        each.partial.update().reorder(its.lane, its.condition, each.steps).vectorize(its.lane).unroll(its.condition);
        each.sum.compute_at(its.precomputed, row).bound_extent(its.condition, each.conditions);
        each.sum.update().atomic().vectorize(each.lanes.x);
    }
    for (Func& threshold : its.thresholds) threshold.compute_at(its.precomputed, row);
    its.ties.compute_at(its.precomputed, row);
    return loops;
}

/// A key's place is known once all keys before it are counted: a list is made in one piece.
void schedule_list(key_list& its, int lanes) {
    // Schedule
    const Var ko("ko"), task("task");
    const Var &k = its.k, &h = its.h, &b = its.b;
    for (Stage each : {Stage(its.seen), Stage(its.seen.update())})
        each.split(k, ko, k, keys_of_task, TailStrategy::GuardWithIf).vectorize(k, lanes);
    its.seen.compute_root();
    its.seen.update().fuse(ko, h, task).fuse(task, b, task).parallel(task);
    its.listed.compute_root().vectorize(k, lanes);
    its.listed.update().fuse(h, b, task).parallel(task);
}

}  // namespace

void schedule_precomputed(precomputed_tensors& its, const kernel_request& request) {
    const int lanes = lanes_of(request.schedule);
    std::vector<loops_of_rows> loops(its.all.size());
    std::vector<int> rows(its.all.size(), 1);  // of a choice's task
    const auto chooser_of = [](const precomputed_tensor& each) { return static_cast<std::size_t>(each.rows_with); };
    for (const precomputed_tensor& each : its.all)
        if (each.rows_with >= 0)
            rows[chooser_of(each)] = std::max(rows[chooser_of(each)], rows_of_task(each, *request.target));
    for (std::size_t i = 0; i < its.all.size(); ++i)
        if (its.all[i].chooses()) loops[i] = schedule_choice(its.all[i], lanes, rows[i]);
    if (its.list) schedule_list(*its.list, lanes);
    for (std::size_t i = 0; i < its.all.size(); ++i) {
        precomputed_tensor& each = its.all[i];
        if (each.chooses()) continue;
        if (each.rows_with < 0)
            schedule_reals(each, *request.target, lanes, nullptr, {},
                           decodes(request.schedule) && runs_over_keys(request.graph(), its.nodes[i]));
        else
            schedule_reals(each, *request.target, lanes, &its.all[chooser_of(each)], loops[chooser_of(each)], false);
    }
}

}  // namespace attune::generators::inline cpu
