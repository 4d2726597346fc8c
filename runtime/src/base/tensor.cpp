#include "base/text.hpp"

#include <attune/runtime/error.hpp>
#include <attune/runtime/tensor.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace attune {

tensor::tensor(element_type type, const void* data, bool read_only, extents shape, extents strides)
    : data_(data),
      rank_(static_cast<int>(std::min<std::size_t>(shape.size(), max_axes))),
      type_(type),
      read_only_(read_only) {
    if (shape.size() > max_axes)
        detail::fail(detail::say("a shape of at most ", max_axes, " axes"), detail::list_of(shape),
                     "a view of the axes that attention knows");
    if (!strides.empty() && strides.size() != shape.size())
        detail::fail(detail::say("one stride an axis of ", detail::list_of(shape)),
                     detail::say("strides ", detail::list_of(strides)), "no strides at all where the tensor is dense");
    std::copy(shape.begin(), shape.end(), shape_.begin());
    std::copy(strides.begin(), strides.end(), strides_.begin());
    if (!strides.empty()) return;
    std::int64_t step = 1;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
        strides_[axis] = step;
        // Saturated, not wrapped: the call refuses such a stride by the axis's name.
        if (__builtin_mul_overflow(step, std::max<std::int64_t>(shape[axis], 1), &step))
            step = std::numeric_limits<std::int64_t>::max();
    }
}

bool tensor::empty() const {
    const auto all = shape();
    return std::find(all.begin(), all.end(), 0) != all.end();
}

tensor tensor::swapped(int axis, int other) const {
    if (axis < 0 || other < 0 || axis >= rank_ || other >= rank_)
        detail::fail(detail::say("two axes of ", description()), detail::say(axis, " and ", other),
                     detail::say("axes from 0 to ", rank_ - 1));
    tensor result = *this;
    std::swap(result.shape_[static_cast<std::size_t>(axis)], result.shape_[static_cast<std::size_t>(other)]);
    std::swap(result.strides_[static_cast<std::size_t>(axis)], result.strides_[static_cast<std::size_t>(other)]);
    return result;
}

tensor tensor::in(memory where, int device) const {
    constexpr int most = std::numeric_limits<std::int16_t>::max() - 1;
    if (device < any_device || device > most || (where == memory::host && device != any_device))
        detail::fail(detail::say("a device's index from 0 to ", most, " beside a GPU's memory, or none"),
                     detail::say(device), "attune::tensor::any_device");
    tensor result = *this;
    result.where_ = where, result.device_ = static_cast<std::int16_t>(device);
    return result;
}

std::string tensor::description() const { return detail::say(name_of(type_), " ", detail::list_of(shape())); }

}  // namespace attune
