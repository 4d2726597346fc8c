#pragma once
#include <cstdint>
#include <random>
#include <string>

namespace soak {

/// One call of a kind, a variant, a shape and a number of threads that are drawn, checked against what the same call
/// gave before.
void call_once(std::mt19937& random);

std::int64_t calls_made();
void failed(const std::string& what);
std::string problem();  ///< what failed first, or nothing

}  // namespace soak
