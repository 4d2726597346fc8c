#pragma once
#include "gpu/remade_tasks.hpp"
#include "stages/kernel_stages.hpp"
#include "stages/merged_splits.hpp"
#include "stages/tensor_state.hpp"

#include <vector>

namespace attune::generators::inline gpu {

/// Few queries by tensor cores: a block of threads goes over one split of a key head's keys as in prefill, with the
/// stacked rows of the key head as queries. Few of these rows may be in use. A second kernel merges the splits.
class gpu_tensor_decode_state : public row_state {
    const kernel_frame& f_;
    const bool marks_;

public:
    explicit gpu_tensor_decode_state(const kernel_frame& frame);

    Halide::Expr maximum_of(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr sum_of(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr summed_of(int weights, const std::vector<Halide::Expr>& row) const override;
    Halide::Expr accumulated_of(const std::vector<Halide::Expr>& row, const Halide::Expr& d) const override;
    Halide::Expr is_marked(const std::vector<Halide::Expr>& row, const Halide::Expr& d) const override;

    Halide::Expr scale() const override { return of_split.scale(); }
    int block() const override { return 1; }
    int chunk() const override { return of_split.chunk(); }
    bool depths_in_lanes() const override { return true; }

    // Functions to schedule.
    tensor_state of_split;
    Halide::Func partial{"partial"};  ///< (value depth, and behind them the other numbers, row, split, query block, key
                                      ///< head, batch): the results of a task for each row
    merged_splits merged;
    Halide::Func parts_of_sum{"parts_of_sum"};  ///< (row, query block, head, batch): of all four threads; not finite if
                                                ///< a sum of the row is not

private:
    Halide::Func left_of_splits();
};

/// Schedules a kernel's stages for a GPU, and adds the passes that finish their loops. `again` is null if no task is
/// made again.
void apply(const gpu_tensor_decode& cut, kernel_stages& all, gpu_tensor_decode_state* state, remade_tasks* again,
           Halide::Pipeline& attention);

}  // namespace attune::generators::inline gpu
