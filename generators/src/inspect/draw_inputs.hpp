#pragma once
#include <attune/ir/graph_ir.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace attune::generators::inline inspect {

/// The subject of a picture. Numbers that are 0 are taken from the given tensors, else chosen.
struct draw_request {
    int queries{}, keys{}, heads{}, key_heads{}, depth{}, value_depth{};
    int head{}, batch{};
    std::vector<std::string> inputs;  ///< "name=...", see `draw --help`
};

/// The values of an input for a picture. Axes are those of its declaration, outermost first; a broadcast axis has
/// stride 0.
struct drawn_input {
    std::string name;
    element_type element{};
    double number{};  ///< of a scalar
    std::vector<int> shape, strides;
    std::vector<std::byte> bytes;
    std::string is;  ///< its content, for the caption: "0*57, 1*44, ..."; empty if the picture does not depend on it
    bool given{};    ///< by the caller, not chosen here
};

/// All of a graph's inputs, then kv_lengths. Fills in the numbers that `request` leaves open. Values that are not given
/// are chosen by how the formula uses them: sorted numbers of documents, increasing offsets, a slope for each head.
/// Throws std::runtime_error, a sentence, for an input that the graph does not have or that does not fit.
std::vector<drawn_input> inputs_of_picture(const graph_ir& graph, draw_request& request);

}  // namespace attune::generators::inline inspect
