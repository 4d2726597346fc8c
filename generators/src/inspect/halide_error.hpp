#pragma once
#include <string>

namespace attune::generators::inline inspect {

/// What Halide says by the exception that is handled now, which is no std::exception. Another one is thrown on.
std::string said_by_halide();

}  // namespace attune::generators::inline inspect
