#pragma once
#include <attune/ir/graph_ir.hpp>

#include <array>
#include <cstdint>
#include <string_view>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // the lists of a graph are indexed by int

namespace attune::dsl::detail {

inline constexpr int max_inputs = 32, max_outputs = 16, max_indices = 16, max_stores = 16;

/// Why a graph has no gradient.
enum class gradient_fault : std::uint8_t {
    none,
    no_log_sum_exp,       ///< of a softmax, among the outputs
    value_not_named,      ///< a value of the forward pass that a rule needs
    not_an_output,        ///< a name in of(...)
    not_a_row_or_output,  ///< the same
    not_a_real_tensor,    ///< a name in wrt(...)
    nothing_depends,      ///< on the tensor of that name
    no_output,
    no_derivative,
    of_a_gradient,
    of_a_shard,
    of_several_cores,
    of_stores,
    of_a_recurrence,
    without_scores,  ///< no score has a part in the gradients that are asked for
    too_long
};

/// Why a graph has no shard.
enum class shard_fault : std::uint8_t {
    none,
    of_a_gradient,
    of_a_shard,
    of_several_cores,
    of_stores,
    of_a_recurrence,
    of_tokens,
    of_precomputed,
    of_pairs_or_keys,  ///< an output without a state to merge: scores, weights, columns, head means
    not_a_sum,         ///< an output that is arithmetic behind a sum over the keys
    no_log_sum_exp,    ///< of a softmax, among the outputs
    read_elsewhere,    ///< q, k or v, used whole and read at another position
};

/// Why a store of a graph is refused.
enum class store_fault : std::uint8_t {
    none,
    reads_what_is_stored,  ///< the stored value, or its place, is made of a tensor to which the call stores
    of_a_query_head,       ///< h elsewhere than along a key_head axis
    in_one_place,          ///< the value varies with something that its place does not
    channels_astray,       ///< d_idx in the place, not alone along one axis
    other_channels,        ///< d_idx along a depth of another kind than the place's
    may_not_fit,           ///< an integer of more bits than the elements have
    beside_precomputed     ///< something is precomputed in the same graph
};

/// Why a graph has no such recurrence.
enum class recurrence_fault : std::uint8_t {
    none,
    another_form,    ///< a step with more parts than the normal form has
    beside_scores,   ///< scores, a mask or a softmax in the same graph
    of_a_recurrence  ///< a step that is made of another recurrence's results
};

/// A graph_ir under construction; nodes that are equal are entered once.
struct ir_builder {
    std::array<instruction, max_nodes> nodes{};
    std::array<input_declaration, max_inputs> inputs{};
    std::array<output_declaration, max_outputs> outputs{};
    std::array<std::string_view, max_indices> indices{};
    std::array<store_declaration, max_stores> stores{};
    int node_count{}, input_count{}, output_count{}, index_count{}, store_count{};

    // What is wrong with the graph; empty, 0 and false in a valid one.
    std::string_view declared_twice{};  ///< name that stands for two things
    std::string_view unbound{};         ///< bound index outside its sum
    std::string_view bound_twice{};     ///< bound index of a sum within a sum over the same
    std::int64_t too_large{};           ///< an integer constant beyond i32
    bool fraction_cut_short{};          ///< x / y of integers, rounded down, among reals
    bool weights_or_other{};            ///< where(condition, weights, x) with another x than 0
    int contractions{};                 ///< products q * t(k) in one score, the most
    bool too_long{};                    ///< there was no room for something
    gradient_fault fault{};             ///< of a gradient
    shard_fault unshardable{};          ///< of a shard
    store_fault unstorable{};           ///< of a store, to the tensor of the name
    recurrence_fault unsteppable{};     ///< of a recurrence
    bool has_recurrences{};             ///< no fault
    std::string_view fault_name{};

    // Nodes that may be equal, the last one first.
    std::array<optional_node, 256> first_like{};
    node_table<optional_node> next_like{};

    // The names of the inputs' gradients, of the outputs' cotangents, and of the states with which a shard's outputs
    // begin.
    std::array<std::string_view, max_inputs> derivative_names_of_inputs{};
    std::array<std::string_view, max_outputs> derivative_names_of_outputs{}, before_names_of_outputs{};

    constexpr const instruction& node(node_id n) const { return nodes[n]; }
    constexpr node_list instructions() const { return {nodes.data(), static_cast<std::size_t>(node_count)}; }
    constexpr bool sound() const {
        return declared_twice.empty() && unbound.empty() && bound_twice.empty() && too_large == 0 &&
               !fraction_cut_short && !weights_or_other && contractions <= 1 && !too_long &&
               fault == gradient_fault::none && unshardable == shard_fault::none && unstorable == store_fault::none &&
               unsteppable == recurrence_fault::none;
    }

    /// Where the next entry goes; the last place over and over when all are taken.
    constexpr int next(int& count, int room) {
        if (count == room) too_long = true, count = room - 1;
        return count++;
    }

    constexpr node_id add(const instruction& i) {
        for (optional_node at = first_like[likeness(i)]; at; at = next_like[*at])
            if (nodes[*at] == i) return *at;
        return append(i);
    }
    /// Enters a node even if there is one that is equal.
    constexpr node_id append(const instruction& i) {
        const node_id at = node_at(next(node_count, max_nodes));
        nodes[at] = i;
        if (!too_long) next_like[at] = first_like[likeness(i)], first_like[likeness(i)] = at;
        return at;
    }
    /// The same for equal nodes.
    constexpr std::size_t likeness(const instruction& i) const {
        const int arguments = 7 * i.arguments[0] + 31 * i.arguments[1] + 61 * i.arguments[2];
        return static_cast<std::size_t>(static_cast<int>(i.op) + arguments + i.input +
                                        static_cast<int>(i.integer & 63)) %
               first_like.size();
    }
    constexpr std::int16_t add_input(const input_declaration& d, std::string_view derivative = {}) {
        for (int at = 0; at < input_count; ++at) {
            if (inputs[at] == d) return static_cast<std::int16_t>(at);
            if (inputs[at].name == d.name) declared_twice = d.name;
        }
        const int at = next(input_count, max_inputs);
        inputs[at] = d;
        derivative_names_of_inputs[at] = derivative;
        return static_cast<std::int16_t>(at);
    }
    constexpr std::int64_t add_index(std::string_view name) {
        for (int at = 0; at < index_count; ++at)
            if (indices[at] == name) return at;
        const int at = next(index_count, max_indices);
        indices[at] = name;
        return at;
    }
    constexpr void add_output(std::string_view name, node_id node, std::string_view derivative = {},
                              std::string_view before = {}) {
        const int at = next(output_count, max_outputs);
        outputs[at] = {name, node};
        derivative_names_of_outputs[at] = derivative, before_names_of_outputs[at] = before;
    }
    constexpr void add_store(node_id element, node_id value) {
        stores[next(store_count, max_stores)] = {element, value};
    }
};

/// The list that entering its outputs makes: without the nodes that none of them needs.
class in_order_of_use_of {
public:
    constexpr explicit in_order_of_use_of(const ir_builder& from) : from_(from) {}

    constexpr ir_builder run() {
        to_.declared_twice = from_.declared_twice, to_.too_long = from_.too_long;
        for (int i = 0; i < from_.output_count; ++i)
            to_.add_output(from_.outputs[i].name, enter(from_.outputs[i].node), from_.derivative_names_of_outputs[i],
                           from_.before_names_of_outputs[i]);
        return to_;
    }

private:
    constexpr node_id enter(node_id n) {
        if (now_[n]) return *now_[n];
        instruction it = from_.nodes[n];
        if (it.input >= 0) it.input = to_.add_input(from_.inputs[it.input], from_.derivative_names_of_inputs[it.input]);
        if (it.op == operation::bound) it.integer = to_.add_index(from_.indices[it.integer]);
        for (int a = 0; a < it.argument_count; ++a) it.arguments[a] = enter(it.arguments[a]);
        const node_id made = to_.add(it);
        now_[n] = made;
        return made;
    }

    const ir_builder& from_;
    ir_builder to_{};
    node_table<optional_node> now_{};
};
constexpr ir_builder in_order_of_use(const ir_builder& list) { return in_order_of_use_of(list).run(); }

}  // namespace attune::dsl::detail

#pragma GCC diagnostic pop
