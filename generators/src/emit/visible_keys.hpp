#pragma once
#include "analysis/graph_facts.hpp"
#include "analysis/mask_formula.hpp"

#include <optional>

namespace attune::generators::inline emit {

struct seen_keys {
    linear most;  ///< keys that a query sees, from constants and numbers of the call; with several cores those of the
                  ///< one that sees most
    bool in_one_stretch;  ///< no hidden keys lie between visible ones, as they do between sinks and a window

    bool constant() const { return most.terms.empty(); }
};

/// The keys that a query sees, if the formula bounds them by constants and scalars, as windows and sinks do: all query
/// heads see the same keys, and the next query sees the same or those one further.
std::optional<seen_keys> visible_keys(const graph_facts& of);

}  // namespace attune::generators::inline emit
