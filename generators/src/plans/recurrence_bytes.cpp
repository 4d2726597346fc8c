#include "plans/parts.hpp"

#include <attune/ir/recurrence.hpp>

#include <algorithm>

/// The bytes of a chunk of a recurrence.
namespace attune::generators::inline plans {
namespace {

constexpr int allocations_of_chunk = 48, allocations_of_gradient = 16;

}  // namespace

/// The buffers of a chunk whose states have a query head each. The state after it takes memory if no output asks for
/// it; the first state does if a formula makes it.
std::vector<buffer> buffers_of(const cpu_recurrence& cut, const kernel_request& request) {
    const graph_ir& graph = request.graph();
    const auto node = [&](int n) -> const instruction& { return graph.nodes[n]; };
    const node_id recurrence = recurrence_of(graph.nodes);
    const recurrence_arguments of = arguments_of(node(recurrence));
    const auto [depth, value_depth] = request.depths;
    if (is_gradient_of_recurrence(graph.nodes))
        return {{"states of a chunk", floats((cut.block + 1) * (depth + 1), value_depth)},
                {"cotangents of a chunk", floats(cut.block * (depth + 1), value_depth)},
                {"parts of a chunk", floats(cut.block, 4 * depth * (cut.lanes + 2) + value_depth)},
                {"rounding", allocations_of_gradient * bytes_of_rounding}};
    const int rows = cut.block * (of.has_second_pair() ? 2 : 1);
    std::vector<buffer> all{{"rows of keys", 12 * floats(rows, depth)},
                            {"rows of values", 6 * floats(rows, value_depth)},
                            {"pairs of rows", 8 * floats(rows, rows)},
                            {"state", floats(depth, value_depth)}};
    if (request.facts->depends[static_cast<std::size_t>(of.decay)].channel)
        all.push_back({"decays of channels", 3 * floats(cut.block, depth)});
    if (!is_constant(node(of.initial), 0) && !is_a_state_as_passed(graph, recurrence))
        all.push_back({"first state", floats(depth, value_depth)});
    all.push_back({"rounding", allocations_of_chunk * bytes_of_rounding});
    return all;
}

/// Rows of the tokens, and the parts of their steps' cotangents.
sum_memory sums_of_recurrence(const kernel_request& request) {
    const auto [depth, value_depth] = request.depths;
    constexpr int numbers = 16;  // of a token
    return {.of_query = floats(1, 8 * depth + 3 * value_depth + numbers + 2 * lanes_of(request.schedule)), .parts = 1};
}

}  // namespace attune::generators::inline plans
