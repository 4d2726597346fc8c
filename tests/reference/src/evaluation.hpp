#pragma once
#include "pointwise.hpp"
#include "view.hpp"

#include <attune/reference.hpp>

#include <map>

namespace attune::reference {

/// The state of one call: arguments bound to inputs, the sizes that they imply, and the value of every node for the query at hand.
class evaluation {
public:
    evaluation(const listing& graph, std::span<const argument> arguments);

    struct {
        std::int64_t batches = 0, heads = 0, key_heads = 0, queries = 0, keys = 0, depth = 0, value_depth = 0;
    } size;

    /// Keys in use of a batch element; memory beyond is never touched.
    std::int64_t keys_in_use(std::int64_t b) const;

    /// Evaluates all nodes for one query.
    void evaluate_row(std::int64_t b, std::int64_t h, std::int64_t q);

    const column& value(std::int16_t node) const { return columns_[static_cast<std::size_t>(node)]; }

private:
    struct panel {  // the keys or values of one (batch, key head) as doubles
        std::int64_t b = -1, key_head = -1;
        std::vector<double> values;
    };

    void bind(std::span<const argument> arguments);
    void measure();
    const instruction& node(std::int16_t i) const { return graph_.nodes[static_cast<std::size_t>(i)]; }
    const view& tensor_of(std::int16_t i) const;
    std::int64_t key_head() const;
    void terminal(const instruction& n, column& to) const;
    void load(const instruction& n, column& to) const;
    void contract(std::int16_t i, column& to);
    void weighted_sum(std::int16_t i, column& to);

    listing graph_;
    std::vector<view> views_;        // by input; empty for scalars
    std::vector<double> scalars_;    // by input
    std::vector<std::int64_t> lengths_;  // kv_lengths, empty if not given
    std::vector<column> columns_;
    std::map<std::int16_t, panel> panels_;
    std::int64_t b_ = 0, h_ = 0, q_ = 0, n_ = 0;  // the query at hand and its number of keys
};

}  // namespace attune::reference
