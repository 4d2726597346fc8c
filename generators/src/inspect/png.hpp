#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace attune::generators::inline inspect {

/// An image of few colours as a `data:` address. Cells are indices into `palette`, rows from the top. For patterns
/// whose outlines would be longer.
std::string png_address(const std::vector<std::uint8_t>& cells, int width, int height,
                        const std::vector<std::array<std::uint8_t, 3>>& palette);

}  // namespace attune::generators::inline inspect
