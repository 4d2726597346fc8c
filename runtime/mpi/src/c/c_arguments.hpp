#pragma once
#include <attune/mpi/plan.hpp>
#include <attune/runtime/detail/c_variant.hpp>

#include <span>
#include <string_view>
#include <vector>

#include "c/arguments.hpp"

/// The arguments of attune/mpi.h, in the form of calls over ranks. Everything here throws attune::error.
namespace attune::mpi::detail {

/// The kernels of a variant that this copy of attune can call over ranks.
const kernel_table& table_of(const attune_variant* variant);

/// A call's arguments under the names of the graph, which outlive the caller's.
std::vector<named_argument> arguments_of_call(const graph_ir& shard, std::string_view variant,
                                              std::span<const named_argument> given);

/// The variants of a plan, each with those of the arguments that it has.
std::vector<graph_to_plan> to_plan(std::span<const attune_variant* const> variants,
                                   std::span<const named_argument> given);

}  // namespace attune::mpi::detail
