#pragma once
#include <string>

namespace attune::generators::inline inspect {

/// The message of the Halide exception that is handled now, which is no std::exception. Other exceptions are thrown on.
std::string said_by_halide();

}  // namespace attune::generators::inline inspect
