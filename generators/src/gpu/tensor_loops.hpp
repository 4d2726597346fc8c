#pragma once
#include "passes/stage_loop.hpp"
#include "stages/tensor_state.hpp"

namespace attune::generators::inline gpu {

/// The loops of a block of threads whose products tensor cores make, in prefill and for a split in decode. Each warp
/// has some of the rows, and all warps go through the blocks of keys one after another. Keys and values lie in shared
/// memory, all else in registers, except queries that would take too many.
class tensor_loops {
public:
    tensor_loops(const gpu_tensor_prefill& cut, const kernel_frame& f, tensor_state& state)
        : f_(f), cut_(cut), state_(state) {}

    static constexpr int warp = 32;

    void schedule_state(const Halide::LoopLevel& task);
    /// A number of each of the block's rows, in shared memory.
    void schedule_row(Halide::Func f, const Halide::LoopLevel& task);

    /// The passes that finish these loops, which stand in a kernel with these outputs.
    void add_passes(const Halide::Func& outputs, Halide::Pipeline& attention) const;

private:
    passes::stage_loop visited() const;
    void schedule_queries(const Halide::LoopLevel& task);
    void schedule_keys(const Halide::LoopLevel& block);
    void schedule_fragments(const Halide::LoopLevel& thread);
    void one_a_thread(Halide::Func f, const Halide::Var& i, int extent);
    Halide::Stage copied(Halide::Func& rows, int words, const Halide::LoopLevel& block);
    Halide::Stage copied_in_parts(Halide::Func& rows, int words, const Halide::LoopLevel& block);
    Halide::Func& of_task(Halide::Func& f, const Halide::LoopLevel& task);
    Halide::Stage of_threads(Halide::Stage stage);
    void in_table(Halide::Func& f, const Halide::Var& i);
    Halide::Func& in_registers(Halide::Func& f, const Halide::LoopLevel& thread);

    const kernel_frame& f_;
    const gpu_tensor_prefill cut_;
    tensor_state& state_;
    const Halide::Var lane{"lane"}, rest{"rest"};
};

}  // namespace attune::generators::inline gpu
