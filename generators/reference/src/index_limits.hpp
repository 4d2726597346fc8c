#pragma once
#include <attune/ir/graph_ir.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

namespace attune::support {

/// What a call has to look like for its indices to stay inside the axes that they read, by input.
struct index_limits {
    std::vector<std::array<std::int64_t, max_rank>> reached;  ///< how far one position leads along each axis
    std::vector<std::int64_t> below;  ///< what elements that become indices stay below; 0: none of them does
};

/// `number`: what the call says of a length, a scalar or an extent.
index_limits index_limits_of(const graph_ir& graph, const std::function<std::int64_t(const instruction&)>& number);

}  // namespace attune::support
