#pragma once
#include <source_location>
#include <stdexcept>
#include <string>

/// The checks of ranks' threads: Catch2's own checks are for one thread.
inline void expect(bool truth, const std::source_location& where = std::source_location::current()) {
    if (!truth) throw std::logic_error(std::string(where.file_name()) + ":" + std::to_string(where.line()));
}
