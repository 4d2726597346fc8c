#include "dependence.hpp"

#include <stdexcept>

namespace attune::reference {

std::vector<variables> dependences(const graph_ir& graph) {
    std::vector<variables> of(graph.nodes.size());
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const instruction& n = graph.nodes[i];
        variables& v = of[i];
        for (std::size_t a = n.op == operation::load ? 1 : 0; a < n.argument_count; ++a)
            v |= of[static_cast<std::size_t>(n.arguments[a])];
        switch (n.op) {
            case operation::b:
            case operation::kv_lengths: v.set(batch_index); break;
            case operation::h: v.set(head_index); break;
            case operation::q_idx: v.set(query_index); break;
            case operation::kv_idx: v.set(key_index); break;
            case operation::d_idx: v.set(channel_index); break;
            case operation::bound:
                if (bound_variable(n) >= v.size()) throw std::invalid_argument("reference: too many bound indices");
                v.set(bound_variable(n));
                break;
            case operation::sum:
            case operation::any: v.reset(bound_variable(graph.nodes[static_cast<std::size_t>(n.arguments[0])])); break;
            case operation::load:
                v.set(batch_index);
                break;  // of its indices; one of a key axis is held within the keys in use
            case operation::keep:
            case operation::contract:
                v.set(batch_index).set(head_index).set(query_index).set(key_index).reset(channel_index);
                break;
            case operation::softmax: v.set(key_index); break;
            case operation::weighted_sum: v.set(batch_index).set(head_index); break;
            default: break;
        }
    }
    return of;
}

}  // namespace attune::reference
