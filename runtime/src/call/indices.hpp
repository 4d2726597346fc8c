#pragma once
#include "call/numbers.hpp"
#include "execution/workspace.hpp"

#include <memory_resource>
#include <span>
#include <string_view>
#include <vector>

namespace attune::detail {

/// An index that is read at, of which nothing but a look at its values says that it is inside its axis.
struct index_use {
    int load, index;
    std::size_t axis;
    std::int64_t places;
    bool ends_with_keys;
    variation_bits varies{};
    bool is_entry{};  ///< of a table: what is in it is the index
};

/// What is read at indices that the caller's tensors hold, such as page tables, and tables that may be shorter than the
/// positions that read them. `find` says which of them have to be looked at, by what cannot change between runs; `look`
/// does, over what the lengths in use reach, and refuses what is read outside of a tensor. Tensors on devices are not
/// looked at.
class index_checks {
public:
    explicit index_checks(std::pmr::memory_resource& memory) : uses_(&memory) {}

    /// What takes a look at each pair, or at each channel, is found where `all` asks for it. To be called after the
    /// other checks; refuses sums over axes that are too short.
    void find(const call_numbers& call, bool all);
    void look(const call_numbers& call) const;

private:
    scratch facts_;
    std::span<variation_bits> varies_;  ///< by node, where there is a use
    std::pmr::vector<index_use> uses_;
};

/// What a node is made of, arguments before their users and the node last, in `room` for all nodes of the graph.
std::span<std::int16_t> nodes_under(const graph_ir& graph, int node, std::span<std::int16_t> room);

/// What a use reads, and along which axis, for messages.
std::string_view tensor_name(const call_numbers& call, const index_use& use);
std::string_view axis_name(const call_numbers& call, const index_use& use);

/// Looks at every index of a use; throws attune::error where one is outside of its axis.
void look_at(const call_numbers& call, const index_use& use, std::span<const variation_bits> varies);

}  // namespace attune::detail
