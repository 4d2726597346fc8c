#include "gpu/remade_tasks.hpp"

#include "gpu/prefill.hpp"
#include "passes/marked_tasks.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace attune::generators::inline gpu {
using namespace Halide;

namespace {

kernel_request in_other_blocks(kernel_request request, const gpu_prefill& cut) {
    request.schedule = cut;
    return request;
}

}  // namespace

remade_tasks::remade_tasks(const kernel_frame& first, const gpu_prefill& cut, epilogue& rows)
    : request_(in_other_blocks(first.request, cut)),
      planned_(plan_kernel(request_)),
      frame_(first, request_, planned_),
      state_(frame_),
      again_(frame_, {&state_}) {
    // Algorithm
    std::vector<Expr> values = again_.outputs.values().as_vector();
    FuncRef made = rows.outputs(frame_.d, frame_.q, frame_.h, frame_.b);
    for (int i = 0; i < static_cast<int>(values.size()); ++i)
        values[i] = marked_tasks::again(values[i], number_at(made, i));
    made = Tuple(values);
}

void remade_tasks::apply(epilogue& rows, int rows_together, Pipeline& attention) {
    // Schedule
    const auto& cut = frame_.schedule_as<gpu_prefill>();
    schedule_task(cut, frame_, rows.outputs, 1, again_, &state_);
    const std::vector<Type>& types = rows.outputs.types();
    const auto at = static_cast<std::size_t>(rows.marked());
    const std::string& name = rows.outputs.name();
    attention.add_custom_lowering_pass(
        new marked_tasks({.function = name,
                          .buffer = types.size() == 1 ? name : name + "." + std::to_string(at),
                          .element = types[at],
                          .rows_of_task = cut.query_block,
                          .rows_together = std::min(cut.query_block, rows_together)}));
    add_passes(state_, attention);
}

}  // namespace attune::generators::inline gpu
