#pragma once
#include "kernel_list.hpp"
#include "shape_bucket.hpp"

#include <utility>
#include <vector>

namespace attune::generators {

/// What a search is about: a kernel, for calls of a kind.
struct tuned_kernel {
    listed_kernel kernel;  ///< under its default schedule
    shape_bucket bucket{};
};

/// The schedules that are tried: default first, then the others in a fixed order. All are valid: they pass check(), their register tiles fit the
/// registers, and what a visit touches fits the second-level cache. Which of them is fast is the cost model's question.
std::vector<schedule> candidates(const tuned_kernel& of);

/// What the cost model says of each, for the bucket's measured shape.
std::vector<double> costs_of(const tuned_kernel& of, const std::vector<schedule>& space);

/// The schedule that the cost model takes for the fastest, and its part of the default's cycles: the default where nothing promises more than the model errs by.
std::pair<schedule, double> modelled_choice(const tuned_kernel& of);

/// Whether the accumulators of both products, an operand and a broadcast fit the registers of a level.
bool fits_registers(const schedule& s, const level& isa);

}  // namespace attune::generators
