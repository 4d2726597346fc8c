#pragma once
#include "kernel/kernel_request.hpp"

#include <attune/workload.hpp>

#include <vector>

namespace attune::generators::inline tuner {

/// Changes the numbers of a recurrence's call, so that states stay finite however many tokens there are: rows of keys
/// are about 1 long, a decay and its logarithm's exponential are at most 1, other numbers of a token are 0 to 1. Calls
/// of attention stay as they are.
void keep_states_finite(support::workload& call, const graph_ir& graph);

/// The arguments of a call. The state after the last token takes the place of the state that was passed, as it does
/// where a model generates: no memory is written that was not read.
std::vector<attune::detail::named_argument> arguments_in_place(const support::workload& call, const graph_ir& graph);

}  // namespace attune::generators::inline tuner
