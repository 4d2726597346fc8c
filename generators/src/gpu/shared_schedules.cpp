#include "gpu/shared_schedules.hpp"

namespace attune::generators::inline gpu {
using namespace Halide;

void bind_outputs(epilogue& its, const kernel_frame& f) {
    Func& outputs = its.outputs;
    const std::vector<OutputImageParam> buffers = outputs.output_buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        OutputImageParam buffer = buffers[i];
        buffer.dim(0).set_stride(its.made[i] == kind::row ? 0 : 1);
        if (i > 0) continue;  // further buffers have the extents of the first
        buffer.dim(0).set_bounds(0, f.value_depth());
        for (int dim = 1; dim < 4; ++dim) buffer.dim(dim).set_min(0);
    }
    outputs.bound(f.d, 0, f.value_depth()).bound(f.q, 0, OutputImageParam(buffers.front()).dim(1).extent());
}

LoopLevel schedule_merged_rows_on_gpu(epilogue& its, const kernel_frame& f) {
    // Schedule
    const TailStrategy guard = TailStrategy::GuardWithIf;
    const Var &d = f.d, &q = f.q, &h = f.h, &b = f.b, thread_x("thread_x"), thread_y("thread_y");
    bind_outputs(its, f);
    its.outputs.split(d, d, thread_x, 32, guard)
        .split(d, d, thread_y, 8, guard)
        .reorder(d, thread_x, thread_y, q, h, b)
        .gpu_blocks(q, h, b)
        .gpu_threads(thread_x, thread_y);
    const LoopLevel task(its.outputs, q);
    for (Func row : its.of_rows())
        row.compute_at(task)
            .bound_extent(f.qi, 1)
            .bound_extent(f.qt, 1)
            .store_in(MemoryType::GPUShared)
            .gpu_threads(f.qi);
    return task;
}

void schedule_tensor_on_gpu(computed_tensor& its, const kernel_frame& f) {
    // Schedule
    const TailStrategy guard = TailStrategy::GuardWithIf;
    const Var p = its.position, d = f.d, h = f.h, b = f.b, po("po"), dx("dx");
    its.result.compute_root();
    if (its.tokens) {  // may be an output of the kernel
        for (int dim = 0; dim < 3; ++dim) its.result.output_buffer().dim(dim).set_min(0);
        its.result.output_buffer().dim(0).set_stride(1);
    }
    its.result.split(p, po, p, 8, guard).split(d, d, dx, 16, guard);
    if (its.tokens)
        its.result.reorder(dx, p, d, po, b).gpu_blocks(d, po, b);
    else
        its.result.reorder(dx, p, d, po, h, b).fuse(h, b, b).gpu_blocks(d, po, b);
    its.result.gpu_threads(dx, p);
}

}  // namespace attune::generators::inline gpu
