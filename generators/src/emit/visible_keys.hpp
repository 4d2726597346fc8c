#pragma once
#include "analysis/graph_facts.hpp"

#include <cstdint>
#include <optional>

namespace attune::generators::inline emit {

/// The most keys from the first to the last that a query sees, where the formula bounds them by a constant, as windows
/// do: for all query heads the same keys, and for the next query those one further. Of several cores the most.
std::optional<std::int64_t> visible_keys(const graph_facts& of);

}  // namespace attune::generators::inline emit
