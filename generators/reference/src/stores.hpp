#pragma once
#include <attune/reference/evaluate.hpp>

#include <deque>

namespace attune::reference {

/// A call's arguments after its stores: copies of the tensors to which the graph stores, and the others as they are.
class stored_copies {
public:
    stored_copies(const graph_ir& graph, std::span<const argument> given, const options& how);

    std::span<const argument> arguments() const { return arguments_; }
    /// A copy of each input to which the graph stores.
    std::vector<array> contents() const;

private:
    std::vector<argument> arguments_;
    std::deque<std::vector<std::byte>> memory_;
    std::vector<std::string_view> names_;
};

}  // namespace attune::reference
