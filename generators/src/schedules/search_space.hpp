#pragma once
#include "kernel/kernel_list.hpp"
#include "schedules/shape_bucket.hpp"

#include <utility>
#include <vector>

namespace attune::generators::inline schedules {

/// The call by which schedules of a kernel are compared.
call_shape shape_of_timed_calls(const listed_kernel& kernel, shape_bucket bucket);

/// The subject of a search: a kernel, for one kind of call.
struct tuned_kernel {
    listed_kernel kernel;  ///< under its default schedule
    shape_bucket bucket{};
    int shared_memory{};  ///< of a GPU: bytes that a block of threads may have; 0: the bytes that every GPU has
    call_shape shape{shape_of_timed_calls(kernel, bucket)};
};

/// The schedules that are tried: the default first, then the others in a fixed order. All are valid: they pass check(),
/// their register tiles fit the registers, and the memory that a visit touches fits the second-level cache. On a GPU, a
/// thread's sums fit its registers, and a block's numbers fit shared memory. The cost model then says which are fast.
std::vector<schedule> candidates(const tuned_kernel& of);

/// The cost model's estimate of each, for the measured shape. The model knows neither gradients nor tiles of bf16: for
/// these it is the number of respects in which each differs from the default.
std::vector<double> costs_of(const tuned_kernel& of, const std::vector<schedule>& space);

/// The schedule that the cost model expects to be fastest, and its cycles over the default's. It is the default if no
/// schedule promises more than the error of the model.
std::pair<schedule, double> modelled_choice(const tuned_kernel& of);

/// Whether the accumulators of both products, an operand and a broadcast fit the registers of a level.
bool fits_registers(const cpu_prefill& s, const level& isa);
bool fits_registers(const cpu_decode& s, const level& isa);
bool fits_registers(const cpu_gradient& s, const level& isa);
bool fits_registers(const cpu_recurrence& s, const level& isa);

/// Whether a GPU has room for a kernel under its schedule, as far as is known before it is compiled. `shared_memory`:
/// bytes that a block of threads may have; 0: the bytes that every GPU has.
bool fits_device(const kernel_request& request, int shared_memory = 0);

}  // namespace attune::generators::inline schedules
