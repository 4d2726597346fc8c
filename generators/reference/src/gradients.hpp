#pragma once
#include "evaluation.hpp"

#include <attune/reference/evaluate.hpp>

namespace attune::reference {

/// A gradient as rows are evaluated: every row of every (batch, head) adds to it.
class gradient_writer {
public:
    gradient_writer(const graph_ir& graph, const output_declaration& declared, const evaluation& e);

    /// Adds the terms of the row at hand.
    void add(evaluation& e) { add(e, node_, false); }
    /// The same if there is no row: adds terms that reach first states alone.
    void add_to_first_states(evaluation& e) { add(e, node_, true); }
    array take() { return std::move(to_); }

private:
    const instruction& at(node_id n) const { return graph_.nodes[n]; }
    void add(evaluation& e, node_id node, bool to_first_states);
    void add_value(evaluation& e, const instruction& deposit, node_id value);

    const graph_ir& graph_;
    node_id node_;
    array to_;
};

}  // namespace attune::reference
