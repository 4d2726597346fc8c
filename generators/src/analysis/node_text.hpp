#pragma once
#include <attune/ir/listing.hpp>

#include <string>

namespace attune::generators {

/// One node of a listing as the language spells it; parts that listing::text names have their names.
std::string text_of(const listing& graph, int node);

}  // namespace attune::generators
