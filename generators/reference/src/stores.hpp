#pragma once
#include <attune/reference/evaluate.hpp>

#include <deque>

namespace attune::reference {

/// A call's arguments after its stores: copies of what the graph stores to, and the rest as they are.
class stored_copies {
public:
    stored_copies(const graph_ir& graph, std::span<const argument> given, const options& how);

    std::span<const argument> arguments() const { return arguments_; }
    /// Of each input that is stored to.
    std::vector<array> contents() const;

private:
    std::vector<argument> arguments_;
    std::deque<std::vector<std::byte>> memory_;
    std::vector<std::string_view> names_;
};

}  // namespace attune::reference
