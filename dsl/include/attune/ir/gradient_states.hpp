#pragma once
#include <attune/ir/gradient_writer.hpp>
#include <attune/ir/recurrence.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // the lists of a graph are indexed by int

namespace attune::dsl::detail {

/// What flows back through the states of a graph's recurrence to the parts of its step. The loop over the tokens
/// backwards is one node, operation::state_cotangents. Its arguments are the parts that made the states and the
/// cotangents that reach them.
class gradient_states {
public:
    constexpr explicit gradient_states(gradient_writer& to) : to_(to) {}

    /// The last states of a recurrence have a cotangent of this name; of one alone, once.
    constexpr void begin(node_id recurrence, std::string_view name) {
        if (last_ >= 0) return to_.fail(gradient_fault::of_a_recurrence);
        ended_ = recurrence;
        const ir_builder& list = to_.forward();
        const graph_ir graph{.nodes = list.instructions(),
                             .inputs = std::span(list.inputs.data(), static_cast<std::size_t>(list.input_count)),
                             .outputs = {},
                             .text = {}};
        last_ = to_.load_states(name, has_states_of_key_heads(graph, recurrence));
    }
    /// Whether nothing but the last states' cotangent reaches a recurrence.
    constexpr bool has_last_alone(node_id recurrence) const { return ended_ == recurrence && !made_; }

    /// `reach` is told each part of the step and its cotangent: over the channels of keys or of values, or a number of
    /// the token; and whether that is of an initial state. `reader`: read_states, or -1.
    template <class Reach> constexpr void flow_back(node_id recurrence, node_id reader, node_id e, const Reach& reach) {
        const recurrence_arguments of = arguments_of(to_.node(recurrence));
        const bool earlier = reader >= 0 && to_.node(to_.node(reader).arguments[1]).op == operation::earlier;
        const bool of_another = last_ >= 0 && ended_ != recurrence;
        if (made_ || earlier || of_another || of.has_second_pair()) return to_.fail(gradient_fault::of_a_recurrence);
        made_ = true;
        instruction all{.op = operation::state_cotangents,
                        .kind = kind::states,
                        .argument_count = 2,
                        .arguments = {recurrence, last_ >= 0 ? last_ : to_.write().number(0)}};
        const node_id row = reader >= 0 ? to_.node(reader).arguments[0] : no_node;
        if (reader >= 0) all.argument_count = 4, all.arguments[2] = row, all.arguments[3] = e;
        const node_id cotangents = to_.list().add(all);
        using enum step_part;
        const auto part = [&](step_part which, node_id to, operation channels) {
            reach(to, part_of(cotangents, which, channels), channels, which == initial);
        };
        if (reader >= 0) part(row_that_reads, row, operation::depth);
        part(step_part::read, of.read, operation::depth);
        part(erase, of.erase, operation::b);
        part(value, of.value, operation::value_depth);
        part(key, of.key, operation::depth);
        part(decay, of.decay, varies_with_channel(of.decay) ? operation::depth : operation::b);
        part(initial, of.initial, operation::depth);
    }

private:
    gradient_writer& to_;
    node_id ended_{no_node}, last_{no_node};  ///< the recurrence whose last states have a cotangent, and that
    bool made_{};

    constexpr node_id part_of(node_id cotangents, step_part which, operation channels) {
        instruction it{.op = operation::part_cotangent,
                       .kind = kind::real,
                       .argument_count = 1,
                       .arguments = {cotangents},
                       .integer = static_cast<std::int64_t>(which)};
        if (channels != operation::b) it.arguments[it.argument_count++] = to_.terminal(operation::d_idx);
        if (which == step_part::initial) it.arguments[it.argument_count++] = to_.terminal(operation::value_idx);
        return to_.list().add(it);
    }
    constexpr bool varies_with_channel(node_id number) const {
        node_table<bool> below{};
        below[number] = true;
        for (node_id n = number; n >= 0; --n) {
            if (!below[n]) continue;
            if (to_.node(n).op == operation::d_idx) return true;
            for (int a = 0; a < to_.node(n).argument_count; ++a) below[to_.node(n).arguments[a]] = true;
        }
        return false;
    }
};

}  // namespace attune::dsl::detail

#pragma GCC diagnostic pop
