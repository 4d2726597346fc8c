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

/// The conventions of this graph only.
std::vector<choice> choices_of(const graph_ir& graph);

/// A sentence if queries over a cache are aligned with the first keys, as those of whole sequences are; else nothing.
/// `shapes`: the classes that the build asks for, each "decode" or "prefill", perhaps for one graph.
std::string alignment_to_look_at(const graph_ir& graph, std::span<const std::string> shapes);

}  // namespace attune::generators::inline inspect
