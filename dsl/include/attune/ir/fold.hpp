#pragma once
#include <attune/ir/graph_ir.hpp>

namespace attune {

/// The folded values of a node's arguments.
template <class Map> class folded_arguments {
public:
    constexpr folded_arguments(const Map& values, const instruction& node) : values_(values), node_(node) {}
    constexpr std::size_t size() const { return node_.argument_count; }
    constexpr decltype(auto) operator[](std::size_t argument) const { return values_[node_.arguments[argument]]; }
    /// The value of an earlier node, as `dependences_at` asks for it.
    constexpr decltype(auto) operator()(node_id before) const { return values_[before]; }

private:
    const Map& values_;
    const instruction& node_;
};

/// One walk over a list, first node to last. `domain(n, node, arguments)` returns a node's value from the values of its
/// arguments, `arguments[0]` and so on. The domain gives values their meaning: a dependence, a range, a number.
template <class Map, class Domain> constexpr void fold(node_list nodes, Map& to, const Domain& domain) {
    for (const node_id n : nodes.ids()) to[n] = domain(n, nodes[n], folded_arguments(to, nodes[n]));
}

}  // namespace attune
