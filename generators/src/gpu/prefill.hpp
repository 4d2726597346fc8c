#pragma once
#include "cpu/prefill.hpp"
#include "stages/projections.hpp"
#include "stages/quadratic_outputs.hpp"

namespace attune::generators {

/// The stages of a kernel as loops of a GPU: what they compute is defined by the classes that the CPU's kernels are
/// made of.
///
/// A block of threads has a block of queries of one (batch, head) and goes through the blocks of keys one after
/// another. Queries, keys, values, scores and weights lie in shared memory; a thread sums the products of its few
/// queries with its few keys in registers, and then those of the weights with a few of the value depths, to which it
/// adds its part of the running state: accumulators, maxima and sums that never leave its registers.
class gpu_prefill_schedule {
public:
    explicit gpu_prefill_schedule(const kernel_frame& frame);

    void schedule(epilogue& rows) const;  ///< with the pass over the keys
    void schedule(quadratic_outputs& pairs) const;
    void schedule(computed_tensors& tensors) const;

    /// What remains to be done once the loops are there (gpu_passes.hpp).
    void add_passes(Halide::Pipeline& attention,
                    const prefill_state* state) const;  ///< null without a pass over the keys

private:
    void bind(epilogue& rows) const;
    void schedule_decode(epilogue& rows) const;  ///< of decode: with the merging of its parts, and what makes them
    void schedule(prefill_state& state, const Halide::LoopLevel& task) const;
    void schedule_queries(score_tile& scores, const Halide::LoopLevel& task) const;
    void schedule_keys(score_tile& scores, const Halide::LoopLevel& block) const;
    void one_a_thread(Halide::Func f, const Halide::Var& i, int extent) const;
    void by_all_threads(Halide::Func f, const Halide::Var& x, int x_extent, const Halide::Var& y, int y_extent,
                        bool from_memory) const;
    void by_queries(Halide::Func f, const Halide::Var& qi, const Halide::Var& ki) const;
    void in_tiles(Halide::Stage stage, const Halide::VarOrRVar& x, int of_x, const Halide::VarOrRVar& y,
                  int of_y) const;

    bool lies_in_memory(int tensor) const {
        return f_.node(tensor).op == operation::input || f_.inputs.computed.contains(tensor);
    }

    const kernel_frame& f_;
    gpu_prefill cut_;        ///< nothing in decode
    int across_{}, down_{};  ///< threads of a block: along keys and value depths, along queries
};

}  // namespace attune::generators
