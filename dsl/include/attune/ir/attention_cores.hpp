#pragma once
#include <attune/ir/builder.hpp>

#include <array>
#include <span>

/// The attention cores of a graph: for each sum over the keys its scores, its statistic and its values. Most graphs
/// have one. Differential attention has two, and so has a gated sum of a local and a global one.
namespace attune {

/// Positions in graph_ir::nodes; -1 where there is none.
struct attention_core {
    node_id scores{no_node}, statistic{no_node};  ///< the latter: softmax(scores) or unnormalized(scores)
    node_id weights{no_node}, value{no_node};     ///< of its weighted sum
};

inline constexpr int max_cores = 8;

class attention_cores {
public:
    constexpr explicit attention_cores(node_list nodes) : nodes_(nodes) {
        const auto size = node_at(nodes.size());
        for (node_id n{}; n < size; ++n)
            if (at(n).op == operation::weighted_sum) add_weighted_sum(n, at(n));
        for (node_id n{}; n < size; ++n) add_row(n, at(n));
    }

    constexpr int count() const { return count_; }
    constexpr bool too_many() const { return too_many_; }
    constexpr const attention_core& operator[](int i) const { return all_[static_cast<std::size_t>(i)]; }

    /// The core that makes this weighted sum, statistic, sum of weights, log-sum-exp or maximum; -1 where there is none
    /// yet.
    constexpr int of(node_id n) const {
        const instruction& it = at(n);
        for (int i = 0; i < count_; ++i) {
            const attention_core& core = (*this)[i];
            const bool sums_to_one = core.statistic < 0 || at(core.statistic).op == operation::softmax;
            const bool found =
                it.op == operation::weighted_sum  ? core.weights == it.arguments[0] && core.value == it.arguments[1]
                : makes_weights(it.op)            ? core.statistic == n
                : it.op == operation::row_sum     ? core.statistic == statistic_of(it.arguments[0])
                : it.op == operation::log_sum_exp ? core.scores == it.arguments[0] && sums_to_one
                                                  : it.op == operation::row_maximum && core.scores == it.arguments[0];
            if (found) return i;
        }
        return -1;
    }

private:
    node_list nodes_;
    std::array<attention_core, max_cores> all_{};
    int count_{};
    bool too_many_{};

    constexpr const instruction& at(node_id n) const { return nodes_[static_cast<std::size_t>(n)]; }
    static constexpr bool makes_weights(operation op) {
        return op == operation::softmax || op == operation::unnormalized;
    }
    /// The softmax or unnormalized scores that these weights are multiples of.
    constexpr node_id statistic_of(node_id weights) const {
        while (!makes_weights(at(weights).op)) {
            const node_id before = weights;
            const instruction& it = at(weights);
            for (std::size_t a = 0; a < it.argument_count; ++a)
                if (at(it.arguments[a]).kind == kind::weights) weights = it.arguments[a];
            if (weights == before) return no_node;
        }
        return weights;
    }

    constexpr void add(const attention_core& core) {
        if (count_ == max_cores)
            too_many_ = true;
        else
            all_[static_cast<std::size_t>(count_++)] = core;
    }
    constexpr void add_weighted_sum(node_id n, const instruction& it) {
        const node_id statistic = statistic_of(it.arguments[0]);
        if (statistic >= 0 && of(n) < 0) add({at(statistic).arguments[0], statistic, it.arguments[0], it.arguments[1]});
    }
    /// A row of scores, or weights, that no weighted sum has.
    constexpr void add_row(node_id n, const instruction& it) {
        const bool of_weights = makes_weights(it.op) || it.op == operation::row_sum;
        if (!of_weights && it.op != operation::log_sum_exp && it.op != operation::row_maximum) return;
        if (of(n) >= 0) return;
        const node_id statistic = makes_weights(it.op) ? n : of_weights ? statistic_of(it.arguments[0]) : no_node;
        add({statistic >= 0 ? at(statistic).arguments[0] : it.arguments[0], statistic, no_node, no_node});
    }
};

}  // namespace attune
