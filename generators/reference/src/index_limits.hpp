#pragma once
#include <attune/ir/graph_ir.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

namespace attune::support {

/// The sizes and elements that a call must have for its indices to stay inside the axes that they read, by input.
struct index_limits {
    std::vector<std::array<std::int64_t, max_rank>> reached;  ///< the most that one position reaches along each axis
    std::vector<std::int64_t> below;  ///< the bound of elements that become indices; 0: none of them does
};

/// `number`: the call's number for a length, a scalar or an extent.
index_limits index_limits_of(const graph_ir& graph, const std::function<std::int64_t(const instruction&)>& number);

}  // namespace attune::support
