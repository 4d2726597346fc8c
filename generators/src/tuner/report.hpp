#pragma once
#include "tuner/tuner.hpp"

#include <filesystem>

namespace attune::generators::inline tuner {

/// Draws searches: the time of each candidate in the order of trying, with the best so far, and the best time of each
/// register tile and block of keys. Writes an .html page with a table, or an .svg file; throws std::runtime_error for a
/// name with another ending.
void write_report(const std::filesystem::path& file, const std::vector<tune_result>& all);

/// One search as an SVG group, `drawn_height` high.
std::string drawn(const tune_result& result);
inline constexpr int drawn_width = 1000, drawn_height = 430;

}  // namespace attune::generators::inline tuner
