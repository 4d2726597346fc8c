#pragma once
#include "call/bind/bind.hpp"

#include <attune/ir/builder.hpp>

#include <array>
#include <cstdint>
#include <span>

#pragma GCC visibility push(hidden)
namespace attune::detail {

/// The scalars that decide a length or an index, a bit for each input. The checks of a call, and the choice of the
/// indices to look at, hold for their values alone.
std::uint64_t deciding_scalars(const graph_ir& graph);

/// The replacements of a prepared call's arguments in one call. Refuses names that the call was not prepared with or
/// that come twice; if `alike`, also tensors that differ by more than their address.
class replacements {
public:
    replacements(const graph_ir& graph, std::span<const named_argument> prepared,
                 std::span<const named_argument> others, bool alike);

    std::span<const bound_call::replacement> all() const { return std::span(all_).first(count_); }
    /// Whether one of them is among these scalars.
    bool decide(const graph_ir& graph, std::uint64_t scalars) const;

private:
    std::array<bound_call::replacement, dsl::detail::max_inputs + dsl::detail::max_outputs + 2> all_{};
    std::size_t count_ = 0;
};

}  // namespace attune::detail
#pragma GCC visibility pop
