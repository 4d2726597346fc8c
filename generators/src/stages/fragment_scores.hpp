#pragma once
#include "stages/kernel_frame.hpp"

namespace attune::generators::inline stages {

/// Makes known at a place the terms of a score that kernels by tensor cores compute in their own way.
///
/// A hyperbolic tangent times a number, the cap of `softcap`: four instructions of CUDA, where division takes a dozen.
/// The error is within 5e-7 in absolute terms, not relative to the tangent. A score does not notice, unless its
/// products are as exact as those of f32: the cap multiplies the tangent.
///
/// A number of a pair as it lies in memory: -infinity makes a score lower than all others, without a condition.
void know_terms_of_scores(const kernel_frame& frame, place& at);

}  // namespace attune::generators::inline stages
