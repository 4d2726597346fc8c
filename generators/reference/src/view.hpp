#pragma once
#include "element.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace attune::reference {

/// A tensor argument as the evaluator reads it: indices are clamped to each axis, so that an extent of 1 broadcasts.
struct view {
    const std::byte* data{};
    element_type element{};
    std::vector<std::int64_t> extents, strides;  ///< strides in elements

    view() = default;
    explicit view(const tensor& t)
        : data(static_cast<const std::byte*>(t.data())),
          element(t.type()),
          extents(t.shape().begin(), t.shape().end()),
          strides(t.strides().begin(), t.strides().end()) {}

    std::int64_t offset(std::span<const std::int64_t> indices) const {
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < indices.size(); ++i)
            sum += std::clamp<std::int64_t>(indices[i], 0, extents[i] - 1) * strides[i];
        return sum;
    }
    double at(std::span<const std::int64_t> indices) const {
        return read_element(data + offset(indices) * bytes_of(element), element);
    }
    bool empty() const { return std::ranges::find(extents, 0) != extents.end(); }
};

}  // namespace attune::reference
