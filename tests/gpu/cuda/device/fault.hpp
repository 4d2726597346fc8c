#pragma once
#include <stdexcept>

namespace ptx {

/// A kernel's mistake, which a device would not survive, or would answer differently each time: a sentence with the
/// kernel, the line of PTX and the thread.
struct fault : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace ptx
