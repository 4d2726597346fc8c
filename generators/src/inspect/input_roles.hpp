#pragma once
#include <attune/ir/graph_ir.hpp>

#include <array>
#include <vector>

namespace attune::generators::inline inspect {

/// How a formula uses an input, in enough detail to choose values for a useful picture.
struct input_role {
    bool read{};  ///< element by element, beyond q, k and v as they are contracted
    enum use : std::uint8_t {
        other,        ///< a bias, numbers of documents, an index
        lower_bound,  ///< of a position: start(q_idx) <= kv_idx
        upper_bound,
        offset,  ///< added to a distance of positions
        bits,    ///< shifted
    } is{other};
    std::array<bool, max_rank> by_position{};  ///< axes that are indexed by a position, neither divided nor reduced
};

/// One for each of graph_ir::inputs.
std::vector<input_role> roles_of_inputs(const graph_ir& graph);

}  // namespace attune::generators::inline inspect
