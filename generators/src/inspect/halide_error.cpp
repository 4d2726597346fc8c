#include "inspect/halide_error.hpp"

#include <Halide.h>

namespace attune::generators::inline inspect {

std::string said_by_halide() {
    try {
        throw;
    } catch (const Halide::Error& problem) {
        return std::string("Halide: ") + problem.what();
    }
}

}  // namespace attune::generators::inline inspect
