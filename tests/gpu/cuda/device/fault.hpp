#pragma once
#include <stdexcept>

namespace ptx {

/// What a kernel did that a device would not do, or would not do alike each time: a sentence with the kernel, the
/// line of PTX and the thread.
struct fault : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace ptx
