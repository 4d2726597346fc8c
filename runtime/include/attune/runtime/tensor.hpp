#pragma once
#include <attune/ir/element.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>

namespace attune {

/// Where elements lie: in the machine's memory, in a CUDA device's, in an OpenCL buffer.
enum class memory : std::uint8_t { host, cuda, opencl };

/// A view of somebody else's tensor: pointer, element type, shape and strides in elements, outermost axis first.
/// q is (batch, head, query, depth), k (batch, key head, key, depth), v (batch, key head, key, value depth).
///
///     attune::tensor Q(data, {2, 8, 1024, 64});                            // dense
///     attune::tensor K(data, {2, 8, 1024, 64}, {1024 * 512, 64, 512, 1});  // stored (batch, key, head, depth)
///
/// Nothing is allocated or read here. The shape is checked where the view is used, because there the axes have names.
/// Only a rank above `max_axes`, or strides of another rank than the shape, throw at once.
class tensor {
public:
    static constexpr int max_axes = 8;
    using extents = std::span<const std::int64_t>;
    using extent_list = std::initializer_list<std::int64_t>;

    tensor() = default;
    template <element T>
    tensor(T* data, extents shape, extents strides = {})
        : tensor(element_of<T>, data, std::is_const_v<T>, shape, strides) {}
    template <element T>
    tensor(T* data, extent_list shape, extent_list strides = {})
        : tensor(data, extents(shape.begin(), shape.size()), extents(strides.begin(), strides.size())) {}

    /// The same if the element type is known at run time only.
    tensor(element_type type, void* data, extents shape, extents strides = {})
        : tensor(type, data, false, shape, strides) {}
    tensor(element_type type, const void* data, extents shape, extents strides = {})
        : tensor(type, data, true, shape, strides) {}

    const void* data() const { return data_; }
    void* mutable_data() const { return read_only_ ? nullptr : const_cast<void*>(data_); }
    element_type type() const { return type_; }
    bool read_only() const { return read_only_; }
    int rank() const { return rank_; }
    extents shape() const { return {shape_.data(), static_cast<std::size_t>(rank_)}; }
    extents strides() const { return {strides_.data(), static_cast<std::size_t>(rank_)}; }
    std::int64_t extent(int axis) const { return shape_[static_cast<std::size_t>(axis)]; }
    std::int64_t stride(int axis) const { return strides_[static_cast<std::size_t>(axis)]; }
    bool empty() const;  ///< some extent is 0

    /// The same elements with two axes exchanged: (batch, length, head, depth) storage becomes a tensor by `swapped(1,
    /// 2)`.
    tensor swapped(int axis, int other) const;

    /// The same view of a GPU's memory: the pointer is a CUDA device's (what cudaMalloc gave, a CUdeviceptr), or a
    /// cl_mem. Calls for that GPU use it in place. `device` is the GPU's index, if it is known: the call then runs
    /// there, and tensors that name another are refused.
    tensor in(memory where, int device = any_device) const;
    static constexpr int any_device = -1;
    memory where() const { return where_; }
    int device() const { return device_; }
    std::string description() const;  ///< "f32 (2, 8, 1024, 64)"

private:
    tensor(element_type type, const void* data, bool read_only, extents shape, extents strides);

    const void* data_{};
    std::array<std::int64_t, max_axes> shape_{}, strides_{};
    int rank_{};
    element_type type_{element_type::any};
    bool read_only_{};
    memory where_{memory::host};
    std::int16_t device_{any_device};
};

}  // namespace attune
