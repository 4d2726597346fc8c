#include "base/text.hpp"
#include "call/shape/shape.hpp"

#include <attune/ir/gradient_outputs.hpp>
#include <attune/mpi/inputs.hpp>
#include <attune/mpi/rows.hpp>
#include <attune/runtime/error.hpp>

#include <algorithm>
#include <bit>
#include <numeric>

namespace attune::mpi::detail {
namespace {

const instruction& node_of(const graph_ir& graph, node_id n) { return graph.nodes[n]; }

/// Marks the nodes that a node is made of.
void reach(const graph_ir& graph, node_id from, std::vector<bool>& reached) {
    if (reached[static_cast<std::size_t>(from)]) return;
    reached[static_cast<std::size_t>(from)] = true;
    const instruction& n = node_of(graph, from);
    for (std::size_t a = 0; a < n.argument_count; ++a) reach(graph, n.arguments[a], reached);
}

bool is_lengths(const graph_ir& graph, const instruction& load) {
    const instruction& read = node_of(graph, load.arguments[0]);
    return read.op == operation::input &&
           graph.inputs[static_cast<std::size_t>(read.input)].name == dsl::of_shard::lengths.label;
}

/// Whether an input is read for rows of which the graph says how many there are.
bool has_own_length(const graph_ir& graph, std::size_t input) {
    return std::ranges::any_of(graph.nodes, [&](const instruction& n) {
        if (!attune::detail::states_length(n)) return false;
        const std::vector<bool> reached = reached_from(graph, n.arguments[0]);
        for (std::size_t at = 0; at < reached.size(); ++at)
            if (reached[at] && graph.nodes[at].op == operation::input &&
                static_cast<std::size_t>(graph.nodes[at].input) == input)
                return true;
        return false;
    });
}

/// Refuses a table over position that is shorter than the tokens of all ranks, one entry for all of them, too: kernels
/// read it at positions of the whole, those of keys that are not in use among them.
void check_table(const graph_ir& graph, std::size_t input, const tensor& t, std::int64_t tokens) {
    const input_declaration& d = graph.inputs[input];
    const auto axis = axis_of(d, axis_kind::position);
    if (!axis || t.extent(*axis) >= tokens || has_own_length(graph, input)) return;
    attune::detail::fail(
        attune::detail::say("an extent of at least ", tokens, " (the tokens of all ranks) along position of ", d.name),
        attune::detail::shown(d.name, t), "an entry for each position");
}

bool is_of_heads(std::string_view scalar) {
    using namespace dsl::of_shard;
    return scalar == first_head.label || scalar == all_heads.label || scalar == all_key_heads.label;
}

}  // namespace

std::vector<bool> reached_from(const graph_ir& graph, node_id node) {
    std::vector<bool> reached(graph.nodes.size());
    reach(graph, node, reached);
    return reached;
}

std::optional<int> axis_of(const input_declaration& input, axis_kind kind) {
    for (int a = 0; a < input.rank; ++a)
        if (input.axes[static_cast<std::size_t>(a)].kind == kind) return a;
    return std::nullopt;
}

void check_is_shard(const graph_ir& graph, std::string_view variant) {
    using dsl::of_shard::key_positions;
    if (std::ranges::find(graph.inputs, key_positions.label, &input_declaration::name) == graph.inputs.end())
        attune::detail::fail("a shard, which knows the positions of its keys", variant, "the variant of shard(graph)");
}

void check_tensors(const graph_ir& shard, std::span<const attune::detail::named_argument> given, std::int64_t tokens) {
    using attune::detail::named_argument;
    for (const named_argument& each : given) {
        if (each.is != named_argument::form::view) continue;
        if (each.view.where() != memory::host)
            attune::detail::fail(attune::detail::say(each.name, " in host memory"), each.view.description(),
                                 "a copy of it");
        const auto input = std::ranges::find(shard.inputs, each.name, &input_declaration::name);
        if (input != shard.inputs.end() && !input->is_scalar) {
            attune::detail::check_input_alone(*input, each.view);
            check_table(shard, static_cast<std::size_t>(input - shard.inputs.begin()), each.view, tokens);
        }
        const auto output = std::ranges::find(shard.outputs, each.name, &output_declaration::name);
        if (output != shard.outputs.end()) attune::detail::check_output_alone(shard, *output, each.view);
    }
}

const input_declaration* before_of(const graph_ir& shard, std::string_view output) {
    const auto found = std::ranges::find_if(shard.inputs, [&](const input_declaration& input) {
        return input.name.size() == output.size() + 7 && input.name.starts_with(output) &&
               input.name.ends_with("_before");
    });
    return found == shard.inputs.end() ? nullptr : &*found;
}

role role_of(const graph_ir& shard, const input_declaration& input) {
    if (is_supplied(shard, input.name)) return role::supplied;
    if (axis_of(input, axis_kind::query)) return role::own_rows;
    return axis_of(input, axis_kind::key) ? role::travels : role::whole;
}

const input_declaration& tensor_of_gradient(const graph_ir& shard, const output_declaration& output) {
    return shard.inputs[static_cast<std::size_t>(input_of_gradient(shard, output))];
}

node_id scores_of(const graph_ir& shard) {
    auto last = node_at(shard.nodes.size() - 1);
    while (last >= 0 && node_of(shard, last).kind != kind::scores) --last;
    return last;
}

bool begins_at_minus_infinity(const graph_ir& shard, const output_declaration& output) {
    if (node_of(shard, output.node).kind != kind::row) return false;
    const std::vector<bool> reached = reached_from(shard, output.node);
    for (std::size_t n = 0; n < shard.nodes.size(); ++n)
        if (reached[n] && shard.nodes[n].op == operation::row_sum) return false;
    return true;
}

deciders deciders_of(const graph_ir& shard, bool with_lengths) {
    std::vector<bool> in_scores(shard.nodes.size()), decides(shard.nodes.size());
    for (std::size_t n = 0; n < shard.nodes.size() && !with_lengths; ++n)
        if (const instruction& it = shard.nodes[n]; it.op == operation::load && is_lengths(shard, it))
            decides[n] = true;  // all_keys, whatever b is
    if (const node_id scores = scores_of(shard); scores >= 0) reach(shard, scores, in_scores);
    for (std::size_t n = 0; n < shard.nodes.size(); ++n)  // pairs that are dropped at random are computed, too
        if (in_scores[n] && shard.nodes[n].kind == kind::condition && shard.nodes[n].op != operation::keep)
            reach(shard, node_at(n), decides);
    deciders found{std::vector<bool>(shard.inputs.size())};
    for (std::size_t n = 0; n < shard.nodes.size(); ++n) {
        if (!decides[n]) continue;
        const instruction& it = shard.nodes[n];
        if (it.input >= 0) found.inputs[static_cast<std::size_t>(it.input)] = true;
        const bool of_heads =
            it.op == operation::scalar && is_of_heads(shard.inputs[static_cast<std::size_t>(it.input)].name);
        found.by_head = found.by_head || it.op == operation::h || of_heads;
        found.by_batch = found.by_batch || it.op == operation::b || it.op == operation::batches;
    }
    return found;
}

std::vector<std::pair<std::string_view, std::uint64_t>> decided_by(
    const graph_ir& shard, std::span<const attune::detail::named_argument> given,
    std::optional<std::span<const std::int32_t>> own) {
    using attune::detail::named_argument;
    const deciders decide = deciders_of(shard, true);
    std::vector<std::pair<std::string_view, std::uint64_t>> all;
    for (std::size_t i = 0; i < shard.inputs.size(); ++i) {
        const input_declaration& input = shard.inputs[i];
        const auto passed = std::ranges::find(given, input.name, &named_argument::name);
        const bool callers = role_of(shard, input) != role::supplied || input.name == dsl::of_shard::lengths.label;
        if (!decide.inputs[i] || !callers || passed == given.end()) continue;
        if (passed->is != named_argument::form::view || passed->view.rank() != input.rank || input.rank == 0) {
            all.emplace_back(input.name,
                             static_cast<std::uint64_t>(passed->integer) ^ std::bit_cast<std::uint64_t>(passed->real));
            continue;
        }
        const auto cut =
            axis_of(input, axis_kind::query) ? axis_of(input, axis_kind::query) : axis_of(input, axis_kind::key);
        const int axis = cut.value_or(0);
        std::vector<std::int32_t> rows(static_cast<std::size_t>(passed->view.extent(axis)));
        std::iota(rows.begin(), rows.end(), 0);
        if (own && cut && rows.size() != 1) rows.assign(own->begin(), own->end());
        all.emplace_back(input.name, hash_of_rows(passed->view, axis, rows));
    }
    return all;
}

}  // namespace attune::mpi::detail
