#include "plans/parts.hpp"

#include <attune/ir/recurrence.hpp>

#include <algorithm>

/// The bytes of a chunk of a recurrence.
namespace attune::generators::inline plans {

/// The buffers of a chunk whose states have a query head each. The state after it takes memory if no output asks for
/// it; the first state does if a formula makes it.
std::vector<buffer> buffers_of(const cpu_recurrence& cut, const kernel_request& request) {
    const graph_ir& graph = request.graph();
    const auto node = [&](int n) -> const instruction& { return graph.nodes[n]; };
    const node_id recurrence = recurrence_of(graph.nodes);
    const recurrence_arguments of = arguments_of(node(recurrence));
    const auto [depth, value_depth] = request.depths;
    const int rows = cut.block * (of.has_second_pair() ? 2 : 1);
    std::vector<buffer> all{{"rows of keys", 12 * floats(rows, depth)},
                            {"rows of values", 6 * floats(rows, value_depth)},
                            {"pairs of rows", 8 * floats(rows, rows)},
                            {"state", floats(depth, value_depth)}};
    if (request.facts->depends[static_cast<std::size_t>(of.decay)].channel)
        all.push_back({"decays of channels", 3 * floats(cut.block, depth)});
    if (!is_constant(node(of.initial), 0) && !is_a_state_as_passed(graph, recurrence))
        all.push_back({"first state", floats(depth, value_depth)});
    all.push_back({"rounding", 48 * 128});
    return all;
}

}  // namespace attune::generators::inline plans
