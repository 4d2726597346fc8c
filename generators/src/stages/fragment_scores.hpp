#pragma once
#include "stages/kernel_frame.hpp"

namespace attune::generators::inline stages {

/// Makes known at a place what kernels by tensor cores have in other words than others, of terms that a score is a sum
/// of.
///
/// A hyperbolic tangent times a number, the cap of `softcap`: four instructions of CUDA, where division takes a dozen,
/// that are within 5e-7. That is of 1 and not of the tangent itself, which a score does not notice: it is weighed by
/// the cap.
///
/// A number of a pair as it lies in memory: -infinity makes a score that is lower than all others without a condition.
void know_terms_of_scores(const kernel_frame& frame, place& at);

}  // namespace attune::generators::inline stages
