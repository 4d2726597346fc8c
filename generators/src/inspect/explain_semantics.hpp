#pragma once
#include <attune/ir/graph_ir.hpp>

#include <span>
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

/// A sentence where queries over a cache are aligned with the first keys, as those of whole sequences are; or nothing.
/// `shapes`: what the build asks for, "decode" or "prefill" each, perhaps of one graph.
std::string alignment_to_look_at(const graph_ir& graph, std::span<const std::string> shapes);

}  // namespace attune::generators::inline inspect
