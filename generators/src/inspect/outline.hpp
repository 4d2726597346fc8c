#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace attune::generators::inline inspect {

/// The outline of the marked cells of a grid as SVG path data, in cells: holes included (fill-rule evenodd or nonzero).
/// It grows with the length of the border, not with the area.
std::string outline(const std::vector<std::uint8_t>& marked, int width, int height);

}  // namespace attune::generators::inline inspect
