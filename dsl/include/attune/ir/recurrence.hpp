#pragma once
#include <attune/ir/builder.hpp>
#include <attune/ir/operations.hpp>

#include <array>
#include <cstdint>
#include <span>

/// Recurrences in their normal form. For each batch element and head, S is a matrix of depth x value depth; before the
/// first token it is `initial`, and token t makes
///
///     S_t = S' + t(key) (value - erase (read S')) + t(second_key) (second_read S_{t-1}),  S' = decay S_{t-1}
///
/// `read S` is a row of value channels: the sum over d of read(d) S(d, value channel). Every step that the language
/// takes is folded to this form (dsl/recurrent.hpp); text, fingerprint, kernels and the reference evaluator know no
/// other.
namespace attune {

/// The arguments of operation::recurrence, in this order; the second pair may be left out.
struct recurrence_arguments {
    node_id initial{no_node};      ///< real over (b, h, d_idx, value_idx); the constant 0 where none is given
    node_id decay{no_node};        ///< real over (b, h, q_idx), or with d_idx a number for each row of S
    node_id key{no_node};          ///< real over (b, h, q_idx, d_idx)
    node_id value{no_node};        ///< real or output over (b, h, q_idx, d_idx), d_idx being the value channel
    node_id erase{no_node};        ///< real over (b, h, q_idx); the constant 0: nothing is erased
    node_id read{no_node};         ///< real over (b, h, q_idx, d_idx)
    node_id second_key{no_node};   ///< the same, or -1
    node_id second_read{no_node};  ///< the same, or -1
    constexpr bool has_second_pair() const { return second_key >= 0; }
};

constexpr recurrence_arguments arguments_of(const instruction& it) {
    const auto& a = it.arguments;
    const bool pair = it.argument_count == 8;
    return {a[0], a[1], a[2], a[3], a[4], a[5], pair ? a[6] : no_node, pair ? a[7] : no_node};
}

/// The parts of a step whose cotangents there are, by their places among recurrence_arguments; and the row that reads.
enum class step_part : std::uint8_t { initial, decay, key, value, erase, read, row_that_reads = 8 };

/// The arguments of operation::state_cotangents, in this order; the last two may be left out.
struct cotangent_arguments {
    node_id recurrence{no_node}, last{no_node};
    node_id row{no_node};        ///< real over (b, h, q_idx, d_idx), or -1
    node_id cotangent{no_node};  ///< the same, d_idx being the value channel, or -1
    constexpr bool has_row() const { return row >= 0; }
};
constexpr cotangent_arguments cotangents_of(const instruction& it) {
    const auto& a = it.arguments;
    const bool row = it.argument_count == 4;
    return {a[0], a[1], row ? a[2] : no_node, row ? a[3] : no_node};
}
/// The cotangents of a graph that is the gradient of a recurrence; -1 in any other.
constexpr node_id state_cotangents_of(node_list nodes) {
    for (std::size_t n = 0; n < nodes.size(); ++n)
        if (nodes[n].op == operation::state_cotangents) return node_at(n);
    return no_node;
}

constexpr bool is_gradient_of_recurrence(node_list nodes) { return state_cotangents_of(nodes) >= 0; }

/// The recurrence whose states a node reads, names or moves.
constexpr node_id recurrence_under(node_list nodes, node_id states) {
    while (nodes[states].op != operation::recurrence) {
        const instruction& it = nodes[states];
        states = it.arguments[it.op == operation::read_states ? 1 : 0];
    }
    return states;
}

constexpr bool is_constant(const instruction& it, double number) {
    return it.op == operation::constant && it.kind == kind::real && it.number == number;
}

/// The first recurrence of a graph; -1 where there is none.
constexpr node_id recurrence_of(node_list nodes) {
    for (std::size_t n = 0; n < nodes.size(); ++n)
        if (nodes[n].op == operation::recurrence) return node_at(n);
    return no_node;
}

/// Whether a graph has recurrences. It then has no scores.
constexpr bool has_recurrences(node_list nodes) { return recurrence_of(nodes) >= 0; }

/// The form of the first recurrence of a graph that has one.
constexpr recurrence_arguments form_of_recurrence(node_list nodes) { return arguments_of(nodes[recurrence_of(nodes)]); }

/// Whether a recurrence has a state for each key head, which several query heads read: where its step and its initial
/// state read tensors of key heads at h, and h stands nowhere else. Any other recurrence has a state for each head.
constexpr bool has_states_of_key_heads(const graph_ir& graph, node_id recurrence) {
    node_table<bool> reached{};
    reached[recurrence] = true;
    bool of_key_heads = false;
    for (node_id at = recurrence; at >= 0; --at) {
        if (!reached[at]) continue;
        const instruction& it = graph.nodes[at];
        for (std::size_t a = 0; a < it.argument_count; ++a) {
            const node_id below = it.arguments[a];
            reached[below] = true;
            if (graph.nodes[below].op != operation::h) continue;
            const instruction& read = graph.nodes[it.arguments[0]];
            const bool along =
                it.op == operation::load && a > 0 && read.op == operation::input &&
                graph.inputs[static_cast<std::size_t>(read.input)].axes[a - 1].kind == axis_kind::key_head;
            if (!along) return false;
            of_key_heads = true;
        }
    }
    return of_key_heads;
}

/// Whether the initial state of a recurrence is an input (batch, head, depth, value depth) that the first chunk reads
/// as it lies. An input over key heads is one only if the states are of key heads: else several heads begin with one of
/// its states.
constexpr bool is_a_state_as_passed(const graph_ir& graph, node_id recurrence) {
    const auto at = [&](node_id n) -> const instruction& { return graph.nodes[n]; };
    const instruction& it = at(arguments_of(at(recurrence)).initial);
    if (it.op != operation::load || it.argument_count != 5 || at(it.arguments[0]).op != operation::input) return false;
    const input_declaration& input = graph.inputs[static_cast<std::size_t>(at(it.arguments[0]).input)];
    return input.element == element_type::f32 && at(it.arguments[1]).op == operation::b &&
           at(it.arguments[2]).op == operation::h && at(it.arguments[3]).op == operation::d_idx &&
           at(it.arguments[4]).op == operation::value_idx && input.axes[0].kind == axis_kind::batch &&
           (input.axes[1].kind == axis_kind::head ||
            (input.axes[1].kind == axis_kind::key_head && has_states_of_key_heads(graph, recurrence))) &&
           input.axes[2].kind == axis_kind::depth && input.axes[3].kind == axis_kind::value_depth;
}

namespace dsl::detail {

/// A step's parts, folded to the normal form while they are entered into a list.
class recurrence_fold {
public:
    constexpr recurrence_fold(ir_builder& list, node_id initial, node_id decay) : list_(list) {
        to_.initial = initial, to_.decay = decay;
    }

    constexpr node_id decay() const { return to_.decay; }
    constexpr node_id real(double number) {
        return list_.add({.op = operation::constant, .kind = kind::real, .number = number});
    }

    /// t(key) value
    constexpr void add_values(node_id key, node_id value) {
        if (to_.key < 0)
            to_.key = key, to_.value = value;
        else if (to_.key == key)
            to_.value = of_two(operation::add, to_.value, value);
        else
            fail(recurrence_fault::another_form);
    }
    /// t(key) (factor (row (decay S))), added or subtracted; a factor of -1 is 1. False if the erasure has its place
    /// already, or another key.
    constexpr bool erase(node_id key, node_id row, node_id factor, bool subtracted) {
        if (to_.erase >= 0 || (to_.key >= 0 && to_.key != key)) return false;
        to_.key = key, to_.read = row;
        if (factor < 0)
            to_.erase = real(subtracted ? 1 : -1);
        else
            to_.erase = subtracted ? factor : negated(factor);
        return true;
    }
    /// t(key) (row S)
    constexpr void add_second(node_id key, node_id row) {
        if (to_.has_second_pair()) fail(recurrence_fault::another_form);
        to_.second_key = key, to_.second_read = row;
    }
    constexpr node_id of_two(operation op, node_id x, node_id y) {
        const bool output = list_.node(x).kind == kind::output || list_.node(y).kind == kind::output;
        return list_.add(
            {.op = op, .kind = output ? kind::output : kind::real, .argument_count = 2, .arguments = {x, y}});
    }
    constexpr node_id negated(node_id x) {
        return list_.add({.op = operation::negate, .kind = kind::real, .argument_count = 1, .arguments = {x}});
    }
    constexpr node_id done() {
        if (to_.key < 0) to_.key = real(0);
        if (to_.value < 0) to_.value = real(0);
        if (to_.erase < 0) to_.erase = real(0), to_.read = to_.key;
        list_.has_recurrences = true;
        instruction it{.op = operation::recurrence,
                       .kind = kind::states,
                       .argument_count = 6,
                       .arguments = {to_.initial, to_.decay, to_.key, to_.value, to_.erase, to_.read}};
        if (to_.has_second_pair())
            it.argument_count = 8, it.arguments[6] = to_.second_key, it.arguments[7] = to_.second_read;
        return list_.add(it);
    }

private:
    constexpr void fail(recurrence_fault why) {
        if (list_.unsteppable == recurrence_fault::none) list_.unsteppable = why;
    }

    ir_builder& list_;
    recurrence_arguments to_{};
};

/// No scores stand beside a recurrence, and its step is made of values that are known before it.
constexpr void judge_recurrences(ir_builder& list) {
    if (!list.has_recurrences) return;
    node_table<bool> made_of_states{};
    for (node_id at{}; at < list.node_count; ++at) {
        const instruction& i = list.node(at);
        const bool of_pairs = i.kind == kind::scores || i.kind == kind::weights || i.op == operation::kv_idx;
        if (of_pairs) list.unsteppable = recurrence_fault::beside_scores;
        for (std::size_t a = 0; a < i.argument_count; ++a)
            made_of_states[at] = made_of_states[at] || made_of_states[i.arguments[a]];
        if (i.op != operation::recurrence) continue;
        if (made_of_states[at]) list.unsteppable = recurrence_fault::of_a_recurrence;
        made_of_states[at] = true;
    }
}

}  // namespace dsl::detail

}  // namespace attune
