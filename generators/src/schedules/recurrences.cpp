#include "schedules/recurrences.hpp"

#include <attune/ir/recurrence.hpp>

#include <algorithm>

namespace attune::generators::inline schedules {

recurrence_traits traits_of(const kernel_request& request) {
    const graph_ir& graph = request.graph();
    const recurrence_arguments of = form_of_recurrence(graph.nodes);
    const auto reads = std::ranges::count(graph.nodes, operation::read_states, &instruction::op);
    return {.solves = of.has_second_pair() || !is_constant(graph.nodes[of.erase], 0),
            .by_channels = request.facts->depends[static_cast<std::size_t>(of.decay)].channel,
            .pairs = of.has_second_pair() ? 2 : 1,
            .reads = static_cast<int>(reads),
            .backwards = is_gradient_of_recurrence(graph.nodes)};
}

std::string class_of(const recurrence_traits& traits) {
    std::string name = "recurrence";
    if (traits.solves) name += "+solves";
    if (traits.by_channels) name += "+channel_decays";
    if (traits.pairs == 2) name += "+second_pair";
    if (traits.backwards) name += "+gradient";
    return name;
}

call_shape measured_shape(shape_bucket bucket, const depth_pair& depths) {
    constexpr std::int64_t heads = 32, bytes_of_all = 64 << 20, most_batches = 256;
    if (bucket == shape_bucket::prefill) return {1, heads, heads, 512, 512};
    const std::int64_t bytes = std::int64_t{4} * depths.depth * depths.value_depth * heads,
                       batches = std::clamp<std::int64_t>(bytes_of_all / bytes, 1, most_batches),
                       tokens = bucket == shape_bucket::decode ? 1 : 4;
    return {batches, heads, heads, tokens, tokens};
}

}  // namespace attune::generators::inline schedules
