#include "dependence.hpp"

#include <attune/ir/operations.hpp>

#include <stdexcept>

namespace attune::reference {

namespace {

/// The variables that the evaluation of a node reads beside its arguments' values: read off evaluation.cpp, and not the
/// table by which kernels are made.
struct rule {
    variables adds, removes;
};

variables of(std::initializer_list<std::size_t> all) {
    variables v;
    for (const std::size_t each : all) v.set(each);
    return v;
}

rule rule_of(const instruction& n) {
    switch (family_of(n.op)) {
        case family::terminal:
            if (n.op == operation::b || n.op == operation::kv_lengths) return {of({batch_index}), {}};
            if (n.op == operation::h) return {of({head_index}), {}};
            if (n.op == operation::q_idx) return {of({query_index}), {}};
            if (n.op == operation::kv_idx) return {of({key_index}), {}};
            if (n.op == operation::d_idx) return {of({channel_index}), {}};
            if (n.op != operation::bound) return {};
            if (bound_variable(n) >= variables{}.size())
                throw std::invalid_argument("reference: too many bound indices");
            return {of({bound_variable(n)}), {}};
        case family::tensors:
            // A load's are those of its indices; one of a key axis is held within the keys in use.
            if (n.op == operation::load) return {of({batch_index}), {}};
            if (n.op != operation::contract) return {};
            return {of({batch_index, head_index, query_index, key_index}), of({channel_index})};
        case family::random: return {of({batch_index, head_index, query_index, key_index}), of({channel_index})};
        case family::attention:
            if (n.op == operation::softmax) return {of({key_index}), {}};
            if (n.op == operation::weighted_sum) return {of({batch_index, head_index}), {}};
            return {};
        case family::recurrent:
            if (n.op == operation::value_idx) return {of({value_index}), {}};
            return {of({batch_index, head_index, query_index}), {}};
        case family::sums:  // the index is an argument
        case family::conversion:
        case family::arithmetic:
        case family::bits:
        case family::function:
        case family::function_of_two:
        case family::classification:
        case family::selection:
        case family::comparison:
        case family::logic:
        case family::patterns: break;
    }
    return {};
}

}  // namespace

node_map<variables> dependences(const graph_ir& graph) {
    node_map<variables> all(graph.nodes.size());
    fold(graph.nodes, all, [&](node_id, const instruction& n, const auto& of) {
        variables v;
        for (std::size_t a = n.op == operation::load ? 1 : 0; a < n.argument_count; ++a) v |= of[a];
        if (family_of(n.op) == family::sums) v.reset(bound_variable(graph.nodes[n.arguments[0]]));
        if (n.kind == kind::precomputed) v.reset();
        const auto [adds, removes] = rule_of(n);
        v |= adds;
        v &= ~removes;
        return v;
    });
    return all;
}

}  // namespace attune::reference
