#pragma once
#include "analysis/graph_facts.hpp"
#include "analysis/mask_formula.hpp"

#include <optional>

namespace attune::generators::inline emit {

struct seen_keys {
    linear most;          ///< that a query sees, of constants and numbers of the call; of several cores the most
    bool in_one_stretch;  ///< nothing lies hidden between a stretch and another, as between sinks and a window

    bool constant() const { return most.terms.empty(); }
};

/// Where the formula bounds the keys that a query sees by constants and scalars, as windows and sinks do: for all query
/// heads the same keys, and for the next query the same or those one further.
std::optional<seen_keys> visible_keys(const graph_facts& of);

}  // namespace attune::generators::inline emit
