#pragma once
#include <attune/ir/graph_ir.hpp>

#include <string>
#include <vector>

namespace attune::generators {

/// A choice that a formula makes where conventions differ.
struct choice {
    std::string about;  ///< "alignment", "window", "empty rows", "log-sum-exp", "sink", ...
    std::string says;   ///< a sentence
};

/// Of this graph only: what it does not use is not mentioned.
std::vector<choice> choices_of(const graph_ir& graph);

}  // namespace attune::generators
