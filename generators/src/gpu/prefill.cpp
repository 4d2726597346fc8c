#include "gpu/prefill.hpp"

#include "gpu/shared_schedules.hpp"
#include "gpu/skipped_blocks.hpp"
#include "kernel/gpu_schedule.hpp"
#include "passes/gpu_passes.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace attune::generators::inline gpu {
using namespace Halide;

namespace {

/// The loops of a GPU: a block of threads has a block of queries of one (batch, head) and goes through the blocks of
/// keys one after another. Queries, keys, values, scores and weights lie in shared memory; a thread sums the products
/// of its few queries with its few keys in registers, and then those of the weights with a few of the value depths, to
/// which it adds its part of the running state: accumulators, maxima and sums that never leave its registers.
class prefill_loops {
public:
    prefill_loops(const gpu_prefill& cut, const kernel_frame& f)
        : f_(f),
          cut_(cut),
          across_(std::max(cut.key_block / cut.key_tile, (f.value_depth() + cut.chunk - 1) / cut.chunk)),
          down_(cut.query_block / cut.query_tile) {}

    /// Schedules a definition of some outputs, with the rows from which it is made, as threads have the value depths of
    /// the state, which may be null. Returns the level of a task.
    LoopLevel schedule(Func outputs, int definition, epilogue& rows, const prefill_state* state);
    /// The pass over the keys at a task: of the softmax whose frame these loops have.
    void schedule(prefill_state& state, const LoopLevel& task);
    void schedule(quadratic_outputs& pairs);

private:
    void schedule_queries(score_tile& scores, const LoopLevel& task);
    void schedule_keys(score_tile& scores, const LoopLevel& block);
    void one_a_thread(Func f, const Var& i, int extent);
    void by_all_threads(Func f, const Var& x, int x_extent, const Var& y, int y_extent, bool from_memory);
    void by_queries(Func f, const Var& qi, const Var& ki);
    void in_tiles(Stage stage, const VarOrRVar& x, int of_x, const VarOrRVar& y, int of_y);
    bool lies_in_memory(int tensor) const {
        return f_.node(tensor).op == operation::input || f_.inputs.computed.contains(tensor);
    }

    const kernel_frame& f_;
    const gpu_prefill& cut_;
    const int across_, down_;  ///< threads of a block: along keys and value depths, along queries
};

/// One element of a row a thread.
void prefill_loops::one_a_thread(Func f, const Var& i, int extent) {
    const Var thread_x("thread_x"), thread_y("thread_y");
    f.bound_extent(i, extent)
        .split(i, thread_y, thread_x, across_, TailStrategy::GuardWithIf)
        .gpu_threads(thread_x, thread_y);
}

/// A tile whose elements the threads take in turn. Reads from memory are issued for many elements at a time, so that
/// one wait serves them all.
void prefill_loops::by_all_threads(Func f, const Var& x, int x_extent, const Var& y, int y_extent, bool from_memory) {
    constexpr int at_a_time = 16;
    const Var thread_x("thread_x"), thread_y("thread_y"), some("some");
    f.bound_extent(x, x_extent).bound_extent(y, y_extent);
    f.split(x, x, thread_x, std::min(across_, x_extent), TailStrategy::GuardWithIf)
        .split(y, y, thread_y, std::min(down_, y_extent), TailStrategy::GuardWithIf);
    const int columns = x_extent / across_,
              rows = std::gcd(y_extent / down_, std::max(at_a_time / std::max(columns, 1), 1));
    if (!from_memory || x_extent % across_ != 0 || y_extent % down_ != 0 || columns > at_a_time) {
        f.reorder(x, y, thread_x, thread_y).gpu_threads(thread_x, thread_y);
        return;
    }
    f.split(y, y, some, rows)
        .reorder(x, some, y, thread_x, thread_y)
        .unroll(x)
        .unroll(some)
        .gpu_threads(thread_x, thread_y);
}

/// A tile of pairs whose elements are made one by one: neighbouring threads have neighbouring queries, in different
/// banks, and each goes through keys.
void prefill_loops::by_queries(Func f, const Var& qi, const Var& ki) {
    const int rows = cut_.query_block / across_, threads = down_ / std::max(rows, 1),
              keys = cut_.key_block / std::max(threads, 1);
    if (cut_.query_block % across_ != 0 || rows > down_ || down_ % rows != 0 || cut_.key_block % threads != 0)
        return by_all_threads(f, qi, cut_.query_block, ki, cut_.key_block, false);
    const Var thread_x("thread_x"), thread_y("thread_y"), ko("ko"), kj("kj");
    f.bound_extent(qi, cut_.query_block).bound_extent(ki, cut_.key_block);
    f.split(qi, qi, thread_x, across_)
        .split(ki, ko, ki, keys)
        .split(ki, ki, kj, std::gcd(keys, 4))
        .reorder(kj, ki, thread_x, qi, ko);
    f.fuse(qi, ko, thread_y).unroll(kj).gpu_threads(thread_x, thread_y);
}

/// A tile of `of_x` x `of_y` a thread, in registers.
void prefill_loops::in_tiles(Stage stage, const VarOrRVar& x, int of_x, const VarOrRVar& y, int of_y) {
    const Var thread_x("thread_x"), thread_y("thread_y");
    stage.split(x, thread_x, x, of_x)
        .split(y, thread_y, y, of_y)
        .reorder(x, y, thread_x, thread_y)
        .gpu_threads(thread_x, thread_y)
        .unroll(x)
        .unroll(y);
}

LoopLevel prefill_loops::schedule(Func outputs, int definition, epilogue& rows, const prefill_state* state) {
    // Schedule
    const TailStrategy guard = TailStrategy::GuardWithIf;
    const Var &d = f_.d, &q = f_.q, &h = f_.h, &b = f_.b, &qi = f_.qi;
    const Var qo(definition == 0 ? "qo" : "qo_again"), dg("dg"), dj("dj"), thread_x("thread_x"), thread_y("thread_y");
    const int together = state && state->values ? state->depths.together : cut_.chunk,
              across = state && state->values ? state->depths.count : (f_.value_depth() + cut_.chunk - 1) / cut_.chunk;
    Stage made = definition == 0 ? Stage(outputs) : outputs.update(definition - 1);
    made.split(q, qo, qi, cut_.query_block, guard)
        .split(qi, thread_y, qi, cut_.query_tile, guard)
        .split(d, dg, thread_x, together * across, guard)
        .split(thread_x, thread_x, dj, together, guard);
    made.reorder(dj, dg, qi, thread_x, thread_y, qo, h, b)
        .gpu_blocks(qo, h, b)
        .gpu_threads(thread_x, thread_y)
        .unroll(dj)
        .unroll(dg)
        .unroll(qi);
    const LoopLevel task(outputs, qo);
    for (Func row : rows.of_rows()) {
        row.compute_at(task).bound_extent(f_.qt, 1).store_in(MemoryType::GPUShared);
        one_a_thread(row, qi, cut_.query_block);
    }
    return task;
}

void prefill_loops::schedule(prefill_state& its, const LoopLevel& task) {
    // Schedule
    const Var &qi = f_.qi, &ki = f_.ki, &kb = f_.kb, &qt = f_.qt, &d = f_.d, &dc = its.dc;
    const Var thread_x("thread_x"), thread_y("thread_y");
    const RVar visited("visited"), decided("decided");
    const MemoryType shared = MemoryType::GPUShared;
    Func& state = its.state;

    state.compute_at(task)
        .store_in(MemoryType::Register)
        .bound_extent(qi, cut_.query_block)
        .bound_extent(qt, 1)
        .bound_extent(dc, its.depths.count);
    state.split(qi, thread_y, qi, cut_.query_tile).reorder(qi, dc, thread_y).gpu_threads(dc, thread_y).unroll(qi);
    Stage update = state.update();
    update.split(its.blocks.x, decided, visited, decided_at_once, TailStrategy::GuardWithIf)
        .split(qi, thread_y, qi, cut_.query_tile);
    update.reorder(qi, dc, thread_y, visited, decided).gpu_threads(dc, thread_y).unroll(qi);
    update.never_partition(std::vector<VarOrRVar>{visited, decided});  // one loop, for skip_blocks to guard
    const LoopLevel block(state, visited), thread(state, dc);

    its.parts.visits_of_block.compute_at(LoopLevel(state, decided)).store_in(shared).bound_extent(qt, 1);
    one_a_thread(its.parts.visits_of_block, kb, decided_at_once);

    schedule_queries(its.scores_at, task);
    schedule_keys(its.scores_at, block);
    const auto of_block = [&](Func& f) {
        f.compute_at(block).store_in(shared).bound_extent(qt, 1).bound_extent(kb, 1);
    };
    of_block(its.scores);
    its.scores.bound_extent(ki, cut_.key_block)
        .bound_extent(qi, cut_.query_block)
        .align_storage(qi, padded(cut_.query_block));
    in_tiles(its.scores, ki, cut_.key_tile, qi, cut_.query_tile);
    for (score_tile::contraction& c : its.scores_at.contractions) {
        c.product.compute_at(its.scores, thread_x).unroll(qi).unroll(ki);
        c.product.update().reorder(qi, ki, c.each.x).unroll(qi).unroll(ki);
        if (c.fixed) c.product.update().unroll(c.each.x, cut_.depth_unroll);
    }
    for (Func row : its.weights.of_rows()) {
        of_block(row);
        row.hoist_storage(task);  // a place of their own: memory that becomes free within a block is left to tiles
        one_a_thread(row, qi, cut_.query_block);
        row.update()
            .split(qi, thread_y, thread_x, across_, TailStrategy::GuardWithIf)
            .reorder(its.rk.x, thread_x, thread_y)
            .gpu_threads(thread_x, thread_y)
            .unroll(its.rk.x, 8);
    }
    for (Func of : its.weights.of_pairs(f_.core)) {
        of_block(of);
        by_queries(of, qi, ki);
    }
    if (its.final_state.defined()) {  // by the threads that hold the first chunk
        its.final_state.compute_at(task)
            .store_in(shared)
            .bound_extent(dc, 1)
            .bound_extent(qi, cut_.query_block)
            .bound_extent(qt, 1);
        its.final_state.split(qi, thread_y, qi, cut_.query_tile)
            .reorder(qi, dc, thread_y)
            .gpu_threads(dc, thread_y)
            .unroll(qi);
    }
    if (!its.values) return;
    Func &values = its.values->values, &accumulated = its.values->accumulated;
    const RVar& key = its.values->added.x;
    values.compute_at(block).store_in(shared).bound_extent(kb, 1).align_storage(d, padded_values(f_.value_depth()));
    by_all_threads(values, d, f_.value_depth(), ki, cut_.key_block, lies_in_memory(f_.core.value));
    accumulated.compute_at(thread).bound_extent(qt, 1).bound_extent(kb, 1).unroll(qi).unroll(d);
    accumulated.update().reorder(qi, d, key).unroll(qi).unroll(d).unroll(key, its.values->planned().keys);
}

/// Functions that serve all keys of a block of queries. Numbers of the whole task are computed where they are read.
void prefill_loops::schedule_queries(score_tile& scores, const LoopLevel& task) {
    // Schedule
    for (Func& kept : scores.hoisted_of_queries) {
        kept.compute_at(task).store_in(MemoryType::GPUShared).bound_extent(f_.qt, 1);
        one_a_thread(kept, f_.qi, cut_.query_block);
    }
    for (score_tile::contraction& c : scores.contractions) {
        if (!c.fixed) continue;  // its depth is known at run time only: read where it lies
        c.panel.compute_at(task)
            .store_in(MemoryType::GPUShared)
            .bound_extent(f_.qt, 1)
            .align_storage(f_.qi, padded(cut_.query_block));
        by_all_threads(c.panel, f_.d, f_.depth(), f_.qi, cut_.query_block, lies_in_memory(f_.core.query));
    }
}

/// Functions that serve all queries of a block of keys.
void prefill_loops::schedule_keys(score_tile& scores, const LoopLevel& block) {
    // Schedule
    for (Func& kept : scores.hoisted_of_keys) {
        kept.compute_at(block).store_in(MemoryType::GPUShared).bound_extent(f_.kb, 1);
        one_a_thread(kept, f_.ki, cut_.key_block);
    }
    for (score_tile::contraction& c : scores.contractions) {
        if (!c.fixed) continue;
        c.key_rows.compute_at(block)
            .store_in(MemoryType::GPUShared)
            .bound_extent(f_.kb, 1)
            .reorder_storage(f_.ki, f_.d)
            .align_storage(f_.ki, padded(cut_.key_block));
        by_all_threads(c.key_rows, f_.d, f_.depth(), f_.ki, cut_.key_block, lies_in_memory(f_.core.key));
    }
}

void prefill_loops::schedule(quadratic_outputs& pairs) {
    // Schedule
    const TailStrategy guard = TailStrategy::GuardWithIf;
    const Var &k = f_.k, &q = f_.q, &h = f_.h, &b = f_.b, &ki = f_.ki, &qi = f_.qi;
    const Var ko("ko"), qo("qo");
    Func& outputs = pairs.outputs;
    std::vector<OutputImageParam> buffers = outputs.output_buffers();
    for (OutputImageParam& buffer : buffers) buffer.dim(0).set_stride(1);
    for (int dim = 0; dim < outputs.dimensions(); ++dim)
        buffers.front().dim(dim).set_min(0);  // and so all further ones
    outputs.split(k, ko, ki, cut_.key_block, guard);
    // A block of the pairs' own is a single one (see lower): each thread has its own.
    if (pairs.of == quadratic_outputs::shape::columns) {
        outputs.gpu_blocks(ko, h, b).gpu_threads(ki);
    } else {
        outputs.split(q, qo, qi, 8, guard);
        outputs.reorder(ki, qi, ko, qo, b);
        if (pairs.of == quadratic_outputs::shape::pairs) outputs.reorder(ki, qi, ko, qo, h, b).fuse(h, b, b);
        outputs.gpu_blocks(ko, qo, b).gpu_threads(ki, qi);
    }
    Func& tile = pairs.tile;
    tile.compute_at(outputs, ki).bound_extent(f_.ki, 1).bound_extent(f_.kb, 1);
    if (pairs.of != quadratic_outputs::shape::columns) tile.bound_extent(f_.qi, 1).bound_extent(f_.qt, 1);
}

}  // namespace

void apply(const gpu_prefill& cut, kernel_stages& all, const std::vector<pass_over_keys<prefill_state>>& softmaxes,
           Pipeline& attention) {
    const kernel_frame& f = all.frame;
    for (computed_tensors* tensors : {&all.before, &all.after})
        for (computed_tensor& each : tensors->all) schedule_tensor_on_gpu(each, f);
    prefill_loops loops(cut, f);
    if (!all.rows.empty()) {
        bind_outputs(all.rows, f);
        // All that weigh values have as many depths in a thread.
        const auto weighs =
            std::ranges::find_if(softmaxes, [](const auto& its) { return its.state.values.has_value(); });
        const LoopLevel task =
            loops.schedule(all.rows.outputs, 0, all.rows, weighs == softmaxes.end() ? nullptr : &weighs->state);
        for (const auto& [state, frame] : softmaxes) prefill_loops(cut, frame).schedule(state, task);
    }
    for (quadratic_outputs& each : all.pairs) loops.schedule(each);
    for (const auto& [state, frame] : softmaxes) add_passes(state, attention);
    attention.add_custom_lowering_pass(new halves_as_words);
}

void schedule_task(const gpu_prefill& cut, const kernel_frame& f, Func outputs, int definition, epilogue& rows,
                   prefill_state* state) {
    prefill_loops loops(cut, f);
    loops.schedule(*state, loops.schedule(std::move(outputs), definition, rows, state));
}

void add_passes(prefill_state& state, Pipeline& attention) {
    attention.add_custom_lowering_pass(new private_state({state.state.name()}));
    attention.add_custom_lowering_pass(new skip_blocks_on_gpu(stage_loop(state.state, state.blocks.x).part("visited")));
}

}  // namespace attune::generators::inline gpu
