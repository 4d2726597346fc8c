#pragma once
#include "arguments.hpp"
#include "dependence.hpp"
#include "pointwise.hpp"
#include "states.hpp"

#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace attune::reference {

/// A depth that inputs or options give; otherwise refused: `what` has no channels.
std::int64_t known_depth(std::int64_t depth, const char* what);

/// The state of one call: arguments bound to inputs, the sizes that they imply, and the value of every node for the row
/// at hand.
///
/// A node is evaluated when asked for and kept until something that it depends on changes: a node that depends on the
/// key alone is evaluated once a batch element. kv_idx stands for all keys in use at once and d_idx for a range of
/// channels, so that a node's value is a column over one of them.
class evaluation {
public:
    using shared_column = std::shared_ptr<const column>;

    evaluation(const graph_ir& graph, std::span<const argument> arguments, const options& how);

    const sizes& size() const { return bound_.size; }

    /// Keys in use of a batch element; memory beyond is never touched.
    std::int64_t keys_in_use(std::int64_t b) const;

    /// Goes to another row; d_idx runs over the channels of the values.
    void go_to(std::int64_t b, std::int64_t h, std::int64_t q) { go_to(b, h, q, {0, size().value_depth}); }
    std::int64_t token() const { return q_; }
    /// Channels of tokens.
    std::int64_t width_of(node_id tokens) { return value(node(tokens).arguments[1])->integer.at(0); }
    /// The tokens of a batch element at a position, which have no head.
    shared_column tokens(node_id i, std::int64_t b, std::int64_t q);
    /// The extents and the numbers of precomputed tensors.
    std::pair<std::vector<std::int64_t>, std::vector<double>> precomputed_whole(node_id i) {
        const whole& all = made_whole(i);
        return {all.extents, all.values};
    }

    /// Tokens at every position of their own length.
    std::pair<std::vector<std::int64_t>, std::vector<double>> tokens_whole(node_id i) {
        const whole& all = made_whole(i);
        return {all.extents, all.values};
    }
    /// Every state of a recurrence (batch, head, query, depth, value depth), those before it of earlier(...), or the
    /// last ones, without queries.
    std::pair<std::vector<std::int64_t>, std::vector<double>> states_whole(node_id i);

    shared_column value(node_id node);

    /// The length of an axis of an input; that of the call if the axis broadcasts.
    std::int64_t extent_of(std::int16_t input, std::size_t axis) const;
    /// Keys in use of the row at hand.
    std::int64_t keys_at_hand() const { return n_; }
    /// The key head that the head at hand reads.
    std::int64_t key_head() const;

    /// Writes a store's values, at every place, to the tensor that it names.
    void apply(const store_declaration& store, std::byte* to);

    /// Runs `body` for each value of a bound index, a node, below an extent, a node.
    template <class Body> void for_each(node_id index, node_id extent, Body body) {
        const std::size_t variable = first_bound_index + static_cast<std::size_t>(node(index).integer);
        const std::int32_t count = value(extent)->integer.at(0);
        const std::int64_t outer = bound_indices_[variable];
        for (std::int32_t i = 0; i < count; ++i) {
            bound_indices_[variable] = i, changed(variable);
            body();
        }
        bound_indices_[variable] = outer, changed(variable);
    }

private:
    struct kept {
        std::uint64_t when = 0;
        shared_column is;
    };
    struct panel {  // the keys or values of one (batch, head) as doubles
        std::int64_t b = -1, head = -1;
        std::vector<double> values;
    };
    struct channels {
        std::int64_t first = 0, count = 0;
    };
    /// The tensor that a load reads: an input; or tokens, an output, a formed or a precomputed tensor, evaluated whole
    /// when first read.
    struct source {
        std::span<const std::int64_t> extents;
        const view* input;
        const double* made;
        double at(std::span<const std::int64_t> indices) const;
    };
    struct whole {
        std::vector<std::int64_t> extents;
        std::vector<double> values;
    };

    const instruction& node(node_id i) const { return graph_.nodes[i]; }
    const view& tensor_of(node_id i) const { return bound_.views[static_cast<std::size_t>(node(i).input)]; }
    std::int64_t extent(const instruction& n) const;
    void changed(std::size_t what) { stamps_[what] = ++clock_; }
    void measure_formed();
    void go_to(std::int64_t b, std::int64_t h, std::int64_t q, channels these);

    /// Runs `body` while d_idx stands for other channels.
    template <class Body> void with_channels(channels these, Body body) {
        std::swap(channels_, these), changed(channel_index);
        body();
        std::swap(channels_, these), changed(channel_index);
    }

    column compute(node_id i);
    source source_of(node_id tensor);
    const whole& made_whole(node_id i);
    whole precomputed(node_id i);
    const whole& formed_whole(node_id i);
    column terminal(const instruction& n) const;
    column load(const instruction& n);
    /// The places that a load reads or a store writes, for each key or channel at hand.
    struct places {
        std::size_t rank, count = 1;
        std::array<shared_column, max_rank> indices{};
        std::array<std::int64_t, max_rank> highest{};
        std::array<std::int64_t, max_rank> at(std::size_t i) const;
    };
    places places_of(const instruction& n, std::size_t rank);
    column over_bound_index(const instruction& n);
    column keep(const instruction& n);
    column statistic(const instruction& n);
    column contract(node_id i);
    column weighted_sum(node_id i);
    column read_states(const instruction& n);
    /// The states of a recurrence before and after a token of the batch element and head at hand; -1: none was yet.
    const running_state& state_after(node_id recurrence, std::int64_t q);
    void begin(node_id recurrence, running_state& to);
    void advance(node_id recurrence, running_state& to);
    std::int64_t state_head(node_id recurrence) const;
    /// The cotangent of a part of a step from the reads of the head at hand; that from the last state goes to its first
    /// head.
    column part_cotangent(const instruction& n);
    const part_cotangents& cotangents(node_id states);
    part_cotangents flow_back(const cotangent_arguments& of);
    /// A real or an output of a token, one number for each channel.
    std::vector<double> row_of(node_id formula, std::int64_t width);

    /// Channels of the query at hand.
    std::vector<double> query(node_id tensor);
    /// Keys or values of the (batch, head) at hand, as (channel, key).
    const std::vector<double>& panel_of(node_id user, node_id tensor, std::int64_t depth);

    graph_ir graph_;
    const bool makes_gradients_ = !graph_.outputs.empty() && node(graph_.outputs[0].node).kind == kind::gradient;
    bound_arguments bound_;
    node_map<variables> depends_;                             // by node
    node_map<kept> kept_;                                     // by node
    std::array<std::uint64_t, variables().size()> stamps_{};  // by variable: when it last changed
    std::uint64_t clock_ = 0;
    std::map<node_id, panel> panels_;
    std::map<node_id, whole> wholes_;
    std::map<node_id, running_state> running_;    // by recurrence
    std::map<node_id, part_cotangents> flowed_;   // by operation::state_cotangents
    std::int64_t b_ = 0, h_ = 0, q_ = 0, n_ = 0;  // the row at hand and its number of keys
    channels channels_;
    bool keys_are_stated_ = false;  ///< by a computed tensor: inputs over keys are then as long as they are
    std::array<std::int64_t, variables().size()> bound_indices_{};
};

}  // namespace attune::reference
