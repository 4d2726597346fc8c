#pragma once
#include "plans/kernel_plan.hpp"
#include "stages/epilogue.hpp"
#include "stages/prefill_state.hpp"

namespace attune::generators::inline gpu {

/// Tasks that a launch marked (row_state::is_marked): a second launch makes them again, by threads that multiply by
/// themselves and check each pair before they weigh a value. A task without a mark ends at once.
class remade_tasks {
public:
    /// Makes `rows.outputs` once more, with the same tensors in other blocks.
    remade_tasks(const kernel_frame& first, const gpu_prefill& cut, epilogue& rows);

    /// Schedules the second launch, and adds its passes except halves_as_words. `rows_together` rows share a mark.
    void apply(epilogue& rows, int rows_together, Halide::Pipeline& attention);

private:
    const kernel_request request_;
    const kernel_plan planned_;
    kernel_frame frame_;
    prefill_state state_;
    epilogue again_;
};

}  // namespace attune::generators::inline gpu
