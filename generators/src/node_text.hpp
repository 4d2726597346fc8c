#pragma once
#include <attune/dsl/listing.hpp>

#include <string>

namespace attune::generators {

/// One node of a listing, written out as the language spells it.
std::string text_of(const listing& graph, int node);

}  // namespace attune::generators
