#pragma once
#include <attune/ir/graph_ir.hpp>
#include <attune/workload.hpp>

#include <optional>
#include <string>
#include <vector>

/// The derivative of a graph along a random direction, by its gradients and by differences of the forward pass, both in
/// double precision.
namespace attune::testing {

struct differentiated {
    std::string tensor;
    double by_gradient{}, by_differences{};
    double size{};  ///< of the terms that are added up: what the difference of the two is to be compared with
};

/// For each tensor of which `gradient` makes one; nothing for those whose differences at two steps disagree, as they do
/// beside a kink. Inputs are taken from `call`, rounded to multiples of 2^-12, so that they stay exact in f32 when they
/// are moved: by `step`, its half and its quarter, which are such multiples, too. `options` are the gradient's.
std::vector<differentiated> derivatives_along(const graph_ir& forward, const graph_ir& gradient,
                                              support::workload& call, unsigned seed, double step = 0x1p-7,
                                              const reference::options& options = {});

}  // namespace attune::testing
