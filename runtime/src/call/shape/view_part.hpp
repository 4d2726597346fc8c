#pragma once
#include <attune/runtime/tensor.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(hidden)
namespace attune::detail {

/// A view of a part of a tensor, in the same memory, which may be written where the whole may. An offset into a cl_mem
/// is no address, so that a part of one has to begin where the whole does.
class view_part {
public:
    explicit view_part(const tensor& whole) : whole_(whole) {
        std::ranges::copy(whole.shape(), shape_.begin());
        std::ranges::copy(whole.strides(), strides_.begin());
    }

    /// So many elements along an axis, from `first` on.
    void cut(int axis, std::int64_t first, std::int64_t count) {
        const auto at = static_cast<std::size_t>(axis);
        from_ += first * strides_[at], shape_[at] = count;
    }
    /// So many elements along an axis, so far apart.
    void lay(int axis, std::int64_t count, std::int64_t stride) {
        const auto at = static_cast<std::size_t>(axis);
        shape_[at] = count, strides_[at] = stride;
    }

    tensor view() const {
        const std::size_t rank = whole_.shape().size();
        const tensor::extents shape(shape_.data(), rank), strides(strides_.data(), rank);
        const auto* const data = static_cast<const std::byte*>(whole_.data());
        const void* const at =
            whole_.empty() ? whole_.data() : data + from_ * static_cast<std::int64_t>(bytes_of(whole_.type()));
        const tensor made = whole_.read_only() ? tensor(whole_.type(), at, shape, strides)
                                               : tensor(whole_.type(), const_cast<void*>(at), shape, strides);
        return made.in(whole_.where(), whole_.device());
    }

private:
    const tensor& whole_;
    std::array<std::int64_t, tensor::max_axes> shape_{}, strides_{};
    std::int64_t from_ = 0;
};

}  // namespace attune::detail
#pragma GCC visibility pop
