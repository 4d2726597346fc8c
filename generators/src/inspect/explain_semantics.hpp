#pragma once
#include <attune/ir/graph_ir.hpp>

#include <string>
#include <vector>

namespace attune::generators::inline inspect {

/// The convention that a formula follows where systems differ.
struct choice {
    std::string about;  ///< "alignment", "window", "empty rows", "log-sum-exp", "sink", ...
    std::string says;   ///< a sentence
};

/// Those of this graph only.
std::vector<choice> choices_of(const graph_ir& graph);

}  // namespace attune::generators::inline inspect
