#include "call/shape/axis_use.hpp"
#include "call/shape/shape.hpp"

namespace attune::detail {

axis_use use_of_axes(const graph_ir& graph, operation index, bool (*is_along)(axis_kind)) {
    const auto is_there = [&](std::int16_t input, std::size_t axis) {
        return input >= 0 && is_along(graph.inputs[static_cast<std::size_t>(input)].axes[axis].kind);
    };
    for (const instruction& n : graph.nodes) {
        const auto argument = [&](std::size_t i) { return node_of(graph, n.arguments[i]); };
        if (n.op == operation::extent && is_there(argument(0).input, static_cast<std::size_t>(n.integer)))
            return axis_use::by_extent;
        // The tensor that is read, or whose gradient is written, at the arguments from the second on.
        const std::int16_t indexed = n.op == operation::load      ? argument(0).input
                                     : n.op == operation::deposit ? n.input
                                                                  : std::int16_t{-1};
        const bool reads_precomputed = n.op == operation::load && argument(0).kind == kind::precomputed;
        for (std::size_t i = 0; i < n.argument_count; ++i) {
            const bool indexes = reads_precomputed ? is_along(i == 1   ? axis_kind::batch
                                                              : i == 2 ? axis_kind::head
                                                                       : axis_kind::free)
                                                   : i > 0 && is_there(indexed, i - 1);
            if ((argument(i).op == index) != indexes) return indexes ? axis_use::read_elsewhere : axis_use::as_a_number;
        }
    }
    return axis_use::apart;
}

}  // namespace attune::detail
