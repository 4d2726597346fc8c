#pragma once
#include "kernel/kernel_list.hpp"
#include "schedules/shape_bucket.hpp"

#include <utility>
#include <vector>

namespace attune::generators {

/// What a search is about: a kernel, for calls of a kind.
struct tuned_kernel {
    listed_kernel kernel;  ///< under its default schedule
    shape_bucket bucket{};
    int shared_memory{};  ///< of a GPU: bytes that a block of threads may have there; 0: what every one has
    call_shape shape{measured_shape(bucket)};  ///< of the calls that are timed
};

/// The schedules that are tried: default first, then the others in a fixed order. All are valid: they pass check(),
/// their register tiles fit the registers, and what a visit touches fits the second-level cache; of a GPU, their
/// threads' sums fit the registers, and what a block keeps its shared memory. Which of them is fast is the cost model's
/// question.
std::vector<schedule> candidates(const tuned_kernel& of);

/// What the cost model says of each, for the shape that is measured.
std::vector<double> costs_of(const tuned_kernel& of, const std::vector<schedule>& space);

/// The schedule that the cost model takes for the fastest, and its part of the default's cycles: the default where
/// nothing promises more than the model errs by.
std::pair<schedule, double> modelled_choice(const tuned_kernel& of);

/// Whether the accumulators of both products, an operand and a broadcast fit the registers of a level.
bool fits_registers(const cpu_prefill& s, const level& isa);
bool fits_registers(const cpu_decode& s, const level& isa);

/// Whether a GPU has room for a kernel under its schedule, as far as can be said before it is compiled.
/// `shared_memory`: bytes that a block of threads may have; 0: what every one has.
bool fits_device(const kernel_request& request, int shared_memory = 0);

}  // namespace attune::generators
