#pragma once
#include "plans/kernel_plan.hpp"

/// The parts of `plan_kernel`.
namespace attune::generators::inline plans {

/// Throws std::runtime_error, a sentence, for a request that no kernel is made for.
void refuse_without_kernel(const kernel_request& request);

/// The numbers of a pair that are asked for and those that are kept, whatever the products are.
score_plan scores_along(score_plan::lanes along, const kernel_request& request, const plan& core);

/// A schedule's pairing as a way to multiply.
multiplication of_pairing(int pairing);

/// The pass over the keys of one core.
key_pass pass_of(const cpu_prefill& cut, const kernel_request& request, const plan& core);
key_pass pass_of(const cpu_decode& cut, const kernel_request& request, const plan& core);
key_pass pass_of(const gpu_prefill& cut, const kernel_request& request, const plan& core);
key_pass pass_of(const gpu_tensor_prefill& cut, const kernel_request& request, const plan& core);
key_pass pass_of(const gpu_tensor_decode& cut, const kernel_request& request, const plan& core);
key_pass pass_of(const gpu_decode& cut, const kernel_request& request, const plan& core);

/// The passes in order, derived from the plan's other parts.
std::vector<pass_plan> passes_of(const kernel_plan& plan, const kernel_request& request);

kernel_bytes bytes_of(const kernel_plan& planned, const kernel_request& request);
std::vector<buffer> buffers_of(const cpu_gradient& cut, const kernel_request& request);
std::vector<buffer> buffers_of(const cpu_recurrence& cut, const kernel_request& request);
std::vector<buffer> buffers_of(const gpu_gradient& cut, const kernel_request& request);
sum_memory sum_memory_of(const kernel_plan& planned, const kernel_request& request);
sum_memory sums_of_recurrence(const kernel_request& request);

/// By which an allocation is rounded up, at most.
inline constexpr int bytes_of_rounding = 128;

/// The bytes of a tensor of f32.
inline std::size_t floats(int rows, int columns) {
    return sizeof(float) * static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

}  // namespace attune::generators::inline plans
