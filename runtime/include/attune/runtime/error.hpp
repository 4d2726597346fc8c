#pragma once
#include <stdexcept>
#include <string>

namespace attune {

/// A call that cannot be made as it was asked: "attune: expected ..., got ...; try ...".
/// Thrown before anything is written, unless it is the kernel that fails: out of memory, or in the application's own parallel_for.
/// Its outputs are then undefined.
class error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

namespace detail {
[[noreturn]] void fail(const std::string& expected, const std::string& got, const std::string& attempt);
}

}  // namespace attune
