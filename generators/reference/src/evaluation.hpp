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

/// A depth that inputs or options say; otherwise refused: `what` has no channels.
std::int64_t known_depth(std::int64_t depth, const char* what);

/// The state of one call: arguments bound to inputs, the sizes that they imply, and the value of every node for the row
/// at hand.
///
/// A node is evaluated when asked for and kept until something that it depends on changes: what depends on the key
/// alone is evaluated once a batch element. kv_idx stands for all keys in use at once and d_idx for a range of
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
    /// Channels of tokens.
    std::int64_t width_of(std::int16_t tokens) { return value(node(tokens).arguments[1])->integer.at(0); }
    /// The tokens of a batch element at a position, which have no head.
    shared_column tokens(std::int16_t i, std::int64_t b, std::int64_t q);
    /// The extents and the numbers of what is precomputed.
    std::pair<std::vector<std::int64_t>, std::vector<double>> precomputed_whole(std::int16_t i) {
        const whole& all = made_whole(i);
        return {all.extents, all.values};
    }

    /// Tokens at every position of their own length.
    std::pair<std::vector<std::int64_t>, std::vector<double>> tokens_whole(std::int16_t i) {
        const whole& all = made_whole(i);
        return {all.extents, all.values};
    }
    /// Every state of a recurrence (batch, head, query, depth, value depth), those before it of earlier(...), or the
    /// last ones, without queries.
    std::pair<std::vector<std::int64_t>, std::vector<double>> states_whole(std::int16_t i);

    shared_column value(std::int16_t node);

    /// How long an axis of an input is: of one that broadcasts, the call's.
    std::int64_t extent_of(std::int16_t input, std::size_t axis) const;
    /// Keys in use of the row at hand.
    std::int64_t keys_at_hand() const { return n_; }
    /// The key head that the head at hand reads.
    std::int64_t key_head() const;

    /// Writes what a store says, at every place, to the tensor that it names.
    void apply(const store_declaration& store, std::byte* to);

    /// Runs `body` for each value of a bound index, a node, below an extent, a node.
    template <class Body> void for_each(std::int16_t index, std::int16_t extent, Body body) {
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
    /// What a load reads: an input, or tokens, outputs, formed tensors and what is precomputed, evaluated whole when
    /// first read.
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

    const instruction& node(std::int16_t i) const { return graph_.nodes[static_cast<std::size_t>(i)]; }
    const view& tensor_of(std::int16_t i) const { return bound_.views[static_cast<std::size_t>(node(i).input)]; }
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

    column compute(std::int16_t i);
    source source_of(std::int16_t tensor);
    const whole& made_whole(std::int16_t i);
    whole precomputed(std::int16_t i);
    const whole& formed_whole(std::int16_t i);
    column terminal(const instruction& n) const;
    column load(const instruction& n);
    /// Where a load reads or a store writes, for each key or channel at hand.
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
    column contract(std::int16_t i);
    column weighted_sum(std::int16_t i);
    column read_states(const instruction& n);
    /// The states of a recurrence before and after a token of the batch element and head at hand; -1: none was yet.
    const running_state& state_after(std::int16_t recurrence, std::int64_t q);
    void begin(std::int16_t recurrence, running_state& to);
    void advance(std::int16_t recurrence, running_state& to);
    std::int64_t state_head(std::int16_t recurrence) const;
    /// Of a real or an output of a token, one number for each channel.
    std::vector<double> row_of(std::int16_t formula, std::int64_t width);

    /// Channels of the query at hand.
    std::vector<double> query(std::int16_t tensor);
    /// Keys or values of the (batch, head) at hand, as (channel, key).
    const std::vector<double>& panel_of(std::int16_t user, std::int16_t tensor, std::int64_t depth);

    graph_ir graph_;
    const bool makes_gradients_ = !graph_.outputs.empty() && node(graph_.outputs[0].node).kind == kind::gradient;
    bound_arguments bound_;
    std::vector<variables> depends_;                          // by node
    std::vector<kept> kept_;                                  // by node
    std::array<std::uint64_t, variables().size()> stamps_{};  // by variable: when it last changed
    std::uint64_t clock_ = 0;
    std::map<std::int16_t, panel> panels_;
    std::map<std::int16_t, whole> wholes_;
    std::map<std::int16_t, running_state> running_;  // by recurrence
    std::int64_t b_ = 0, h_ = 0, q_ = 0, n_ = 0;     // the row at hand and its number of keys
    channels channels_;
    bool keys_are_stated_ = false;  ///< by a computed tensor: inputs over keys are then as long as they are
    std::array<std::int64_t, variables().size()> bound_indices_{};
};

}  // namespace attune::reference
