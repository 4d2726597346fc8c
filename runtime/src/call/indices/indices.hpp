#pragma once
#include "call/indices/numbers.hpp"
#include "execution/workspace.hpp"

#include <attune/ir/operations.hpp>

#include <array>
#include <memory_resource>
#include <span>
#include <string_view>
#include <vector>

#pragma GCC visibility push(hidden)
namespace attune::detail {

/// An index, of a read or of the place where a gradient is added up, that can only be checked by looking at its values.
struct index_use {
    node_id load, index;
    std::size_t axis;
    std::int64_t places;
    bool ends_with_keys;
    variation_bits varies{};
    bool is_entry{};  ///< the index is an element of a table

    /// Conditions, each of which has to have this value where the index counts.
    struct guard {
        node_id condition;
        bool value;
    };
    static constexpr std::size_t most_guards = 4;
    std::array<guard, most_guards> guards{};
    std::size_t guard_count{};
    std::span<const guard> guarded_by() const { return std::span(guards).first(guard_count); }
};

/// Checks indices that the caller's tensors hold, such as page tables, and tables that may be shorter than the
/// positions that read them, or at which their gradients are added up. `find` decides which of them have to be checked,
/// from what cannot change between runs. `look` checks them, as far as the lengths in use reach, and refuses a place
/// outside a tensor. Tensors on devices are not looked at.
class index_checks {
public:
    explicit index_checks(std::pmr::memory_resource& memory) : uses_(&memory) {}

    /// Indices that have to be checked for each pair or each channel are found only if `all` is set. To be called after
    /// the other checks. It refuses indices that leave 32 bits somewhere in the call, and sums over axes that are too
    /// short.
    void find(const call_numbers& call, bool all);
    void look(const call_numbers& call) const;

private:
    scratch facts_;
    node_span<variation_bits> varies_;  ///< by node, if there is a use
    std::pmr::vector<index_use> uses_;
};

/// The nodes that an index and its guards are made of, arguments before their users, in `room` for all nodes of the
/// graph.
std::span<node_id> nodes_under(const graph_ir& graph, const index_use& use, node_span<node_id> room);

/// Calls `of(index, extent, body)`, nodes, for each bound index that an operation counts.
template <class F> void each_bound_index(const instruction& n, F of) {
    if (family_of(n.op) == family::sums || n.op == operation::each) of(n.arguments[0], n.arguments[1], n.arguments[2]);
    for (std::size_t i = 1; n.op == operation::precomputed && i < n.argument_count; i += 2)
        of(n.arguments[i], n.arguments[i + 1], n.arguments[0]);
}
/// The node that says how far a deposit counts a bound index, by the index's number; no_node where it does not count
/// it.
node_id extent_of_deposit(const graph_ir& graph, const instruction& deposit, std::int64_t index);

/// The place of a store counts where the store's condition holds, unless it is read otherwise, too.
void guard_by_store(const graph_ir& graph, index_use& use);

/// The tensor and axis of a use, for messages.
std::string_view tensor_name(const call_numbers& call, const index_use& use);
std::string_view axis_name(const call_numbers& call, const index_use& use);

/// Checks every index of a use; throws attune::error if one is outside its axis.
void look_at(const call_numbers& call, const index_use& use, node_span<variation_bits> varies);

}  // namespace attune::detail
#pragma GCC visibility pop
