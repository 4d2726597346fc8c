#include "gpu/tensor_prefill.hpp"

#include "gpu/shared_schedules.hpp"
#include "gpu/tensor_loops.hpp"
#include "passes/fragment_passes.hpp"
#include "passes/gpu_passes.hpp"

namespace attune::generators::inline gpu {
using namespace Halide;

namespace {

/// A block of threads has a block of queries of one (batch, head).
void schedule_outputs(const gpu_tensor_prefill& cut, const kernel_frame& f, tensor_state& s, epilogue& rows,
                      tensor_loops& loops) {
    // Schedule
    const TailStrategy guard = TailStrategy::GuardWithIf;
    const Var &d = f.d, &q = f.q, &h = f.h, &b = f.b, qo("qo"), e("e"), lane("lane");
    Func& outputs = rows.outputs;
    bind_outputs(rows, f);
    outputs.split(q, qo, q, cut.query_block(), guard)
        .split(q, s.w, q, 16 * cut.tiles)
        .split(q, s.mt, q, 16)
        .split(q, s.rh, s.gi, 8);
    outputs.split(d, s.nt, d, 8).split(d, s.ti, e, 2).fuse(s.ti, s.gi, lane);
    outputs.reorder(e, s.nt, s.rh, s.mt, lane, s.w, qo, h, b)
        .gpu_blocks(qo, h, b)
        .gpu_threads(lane, s.w)
        .unroll(e)
        .unroll(s.nt)
        .unroll(s.rh)
        .unroll(s.mt);
    const LoopLevel task(outputs, qo);
    for (const Func& row : rows.of_rows()) loops.schedule_row(row, task);
    loops.schedule_state(task);
}

}  // namespace

void apply(const gpu_tensor_prefill& cut, kernel_stages& all, tensor_state* state, remade_tasks* again,
           Pipeline& attention) {
    const kernel_frame& f = all.frame;
    tensor_loops loops(cut, f, *state);
    schedule_outputs(cut, f, *state, all.rows, loops);
    const Func& outputs = all.rows.outputs;
    loops.add_passes(outputs, attention);
    if (f.request.facts->hides == masking::some)
        attention.add_custom_lowering_pass(new last_queries_first(stage_loop(outputs, f.q, -1).part("qo")));
    if (again) again->apply(all.rows, cut.rows_of_tile * cut.tiles, attention);
    attention.add_custom_lowering_pass(new halves_as_words);
}

}  // namespace attune::generators::inline gpu
