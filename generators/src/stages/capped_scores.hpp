#pragma once
#include "stages/kernel_frame.hpp"

namespace attune::generators::inline stages {

/// Makes each hyperbolic tangent that a score is a multiple of, or a sum with such a multiple, known at a place: the
/// cap of `softcap`. For CUDA: it takes four instructions of a GPU, where division takes a dozen, and is within 5e-7.
/// That is of 1 and not of the tangent itself, which a score does not notice: it is weighed by the cap.
void know_caps(const kernel_frame& frame, place& at);

}  // namespace attune::generators::inline stages
