#pragma once
#include "inspect/picture.hpp"

#include <string>

namespace attune::generators::inline inspect {

struct draw_style {
    bool blocks = true;  ///< draws the blocks that a kernel skips, visits, visits without mask; else the mask alone
};

/// The picture as an SVG file: the mask with the kernel's blocks and, if scores differ, the scores beside it.
std::string svg_of(const picture& p, const draw_style& style);

/// The same values as JSON: visible keys of a query as ranges [first, end), scores by query, blocks by query block.
std::string json_of(const picture& p);

}  // namespace attune::generators::inline inspect
