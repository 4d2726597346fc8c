#pragma once
#include <attune/runtime/error.hpp>
#include <attune/runtime/tensor.hpp>

#include <array>
#include <concepts>
#include <span>
#include <type_traits>

namespace attune {

/// std::mdspan of C++23, and types with the same members: Kokkos' mdspan, std::experimental::mdspan. The data handle
/// must be a plain pointer.
template <class M>
concept multidimensional_span = requires(const M& m) {
    requires std::is_pointer_v<typename M::data_handle_type>;
    requires std::same_as<std::remove_pointer_t<typename M::data_handle_type>, typename M::element_type>;
    requires element<typename M::element_type>;
    { m.data_handle() } -> std::convertible_to<const void*>;
    { m.extent(0) } -> std::convertible_to<std::int64_t>;
    { m.is_strided() } -> std::convertible_to<bool>;
    { M::rank() } -> std::convertible_to<std::size_t>;
};

/// The same view as a tensor: `attune::as_tensor(std::mdspan(data, 2, 8, 1024, 64))`. Layouts without strides are
/// refused.
template <multidimensional_span M>
    requires(M::rank() <= static_cast<std::size_t>(tensor::max_axes))
tensor as_tensor(const M& m) {
    if (!m.is_strided())
        detail::fail("a layout with strides", "one without", "std::layout_right or std::layout_stride");
    std::array<std::int64_t, tensor::max_axes> shape{}, strides{};
    for (std::size_t axis = 0; axis < M::rank(); ++axis) {
        shape[axis] = static_cast<std::int64_t>(m.extent(axis));
        strides[axis] = static_cast<std::int64_t>(m.stride(axis));
    }
    return tensor(m.data_handle(), std::span<const std::int64_t>(shape.data(), M::rank()),
                  std::span<const std::int64_t>(strides.data(), M::rank()));
}

}  // namespace attune
