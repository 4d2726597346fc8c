#pragma once
#include "simulation.hpp"

#include <string>

namespace simulated {

/// Who sends how many bytes to whom, as an SVG: senders in rows, receivers in columns. Of many nodes a square is
/// several.
std::string drawing(const schedule& what, const std::string& title);

}  // namespace simulated
