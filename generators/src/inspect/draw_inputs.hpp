#pragma once
#include <attune/ir/graph_ir.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace attune::generators {

/// What a picture is to show. Numbers that are 0 are taken from the tensors given, else chosen.
struct draw_request {
    int queries{}, keys{}, heads{}, key_heads{}, depth{}, value_depth{};
    int head{}, batch{};
    std::vector<std::string> inputs;  ///< "name=...", see `draw --help`
};

/// An input as a picture is drawn of it. Axes are those of its declaration, outermost first; an axis that repeats has
/// stride 0.
struct drawn_input {
    std::string name;
    element_type element{};
    double number{};  ///< of a scalar
    std::vector<int> shape, strides;
    std::vector<std::byte> bytes;
    std::string
        is;        ///< what it holds, for the caption: "0*57, 1*44, ..."; empty where the picture does not depend on it
    bool given{};  ///< by the caller, not chosen here
};

/// All of a graph's inputs, then kv_lengths. Fills in the numbers that `request` leaves open. What is not given is
/// chosen by how the formula uses it: sorted numbers of documents, increasing offsets, slopes a head. Throws
/// std::runtime_error, a sentence, for an input that the graph does not have or that does not fit.
std::vector<drawn_input> inputs_of_picture(const graph_ir& graph, draw_request& request);

}  // namespace attune::generators
