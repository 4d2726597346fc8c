#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

namespace attune {

/// A call that cannot be made: "attune: expected ..., got ...; try ...". Thrown before anything is written, unless it
/// is a kernel_failure.
class error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
    const char* what() const noexcept override;  // the runtime defines it, and so holds the class's virtual table
};

/// A kernel that began and could not finish: out of memory, or an exception in the application's own parallel_for. Its
/// outputs are undefined.
class kernel_failure : public error {
public:
    using error::error;
    const char* what() const noexcept override;
};

namespace detail {
[[noreturn]] void fail(std::string_view expected, std::string_view got, std::string_view attempt);
}

}  // namespace attune
