#include "mpi/src/elements.hpp"

#include <attune/mpi/rows.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace attune::mpi::detail {
namespace {

/// All elements of the axes from `axis` on but one, dense, outermost first.
std::byte* copy(const tensor& from, int skipped, int axis, std::int64_t offset, std::byte* to) {
    if (axis == skipped) ++axis;
    const auto size = static_cast<std::size_t>(bytes_of(from.type()));
    const auto* at = static_cast<const std::byte*>(from.data()) + offset * static_cast<std::int64_t>(size);
    if (axis >= from.rank()) return static_cast<std::byte*>(std::memcpy(to, at, size)) + size;
    const std::int64_t count = from.extent(axis), stride = from.stride(axis);
    if (axis == from.rank() - 1 && stride == 1) {
        const std::size_t bytes = size * static_cast<std::size_t>(count);
        return static_cast<std::byte*>(std::memcpy(to, at, bytes)) + bytes;
    }
    for (std::int64_t i = 0; i < count; ++i) to = copy(from, skipped, axis + 1, offset + i * stride, to);
    return to;
}

/// The same the other way.
const std::byte* place(const std::byte* from, const tensor& to, int skipped, int axis, std::int64_t offset) {
    if (axis == skipped) ++axis;
    const auto size = static_cast<std::size_t>(bytes_of(to.type()));
    auto* const at = static_cast<std::byte*>(to.mutable_data()) + offset * static_cast<std::int64_t>(size);
    if (axis >= to.rank()) return std::memcpy(at, from, size), from + size;
    const std::int64_t count = to.extent(axis), stride = to.stride(axis);
    if (axis == to.rank() - 1 && stride == 1) {
        const std::size_t bytes = size * static_cast<std::size_t>(count);
        return std::memcpy(at, from, bytes), from + bytes;
    }
    for (std::int64_t i = 0; i < count; ++i) from = place(from, to, skipped, axis + 1, offset + i * stride);
    return from;
}

template <class Element>
const float* give(const float* from, const tensor& to, int skipped, int axis, std::int64_t offset) {
    if (axis == skipped) ++axis;
    if (axis >= to.rank()) {
        static_cast<Element*>(to.mutable_data())[offset] = Element(*from);
        return from + 1;
    }
    for (std::int64_t i = 0; i < to.extent(axis); ++i)
        from = give<Element>(from, to, skipped, axis + 1, offset + i * to.stride(axis));
    return from;
}

/// Calls `f` with the extents and strides of rows that lie one after another.
template <class F> auto with_rows(const tensor& like, int axis, std::int64_t count, F&& f) {
    std::array<std::int64_t, tensor::max_axes> extents{}, strides{};
    std::int64_t inside = 1;
    for (int a = like.rank(); a-- > 0;) {
        const auto at = static_cast<std::size_t>(a);
        if (a == axis) continue;
        extents[at] = like.extent(a), strides[at] = inside, inside *= extents[at];
    }
    extents[static_cast<std::size_t>(axis)] = count, strides[static_cast<std::size_t>(axis)] = inside;
    const auto rank = static_cast<std::size_t>(like.rank());
    return f(std::span(extents).first(rank), std::span(strides).first(rank));
}

}  // namespace

std::size_t bytes_of_row(const tensor& from, int axis) {
    auto bytes = static_cast<std::size_t>(bytes_of(from.type()));
    for (int a = 0; a < from.rank(); ++a)
        if (a != axis) bytes *= static_cast<std::size_t>(from.extent(a));
    return bytes;
}

void copy_rows(const tensor& from, int axis, std::span<const std::int32_t> which, std::byte* to) {
    if (bytes_of_row(from, axis) == 0) return;
    for (const std::int32_t row : which) to = copy(from, axis, 0, row * from.stride(axis), to);
}

std::uint64_t hash_of_rows(const tensor& from, int axis, std::span<const std::int32_t> which) {
    const std::size_t bytes = which.size() * bytes_of_row(from, axis);
    std::vector<std::byte> all((bytes + 7) / 8 * 8);
    copy_rows(from, axis, which, all.data());
    std::uint64_t hash = bytes;
    for (std::size_t at = 0; at < all.size(); at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, all.data() + at, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15;
        hash ^= hash >> 32;
    }
    return hash;
}

tensor of_rows(const tensor& like, int axis, std::int64_t count, const std::byte* data) {
    return with_rows(like, axis, count, [&](const auto& extents, const auto& strides) {
        return tensor(like.type(), static_cast<const void*>(data), extents, strides);
    });
}
tensor of_rows(const tensor& like, int axis, std::int64_t count, std::byte* data) {
    return with_rows(like, axis, count, [&](const auto& extents, const auto& strides) {
        return tensor(like.type(), static_cast<void*>(data), extents, strides);
    });
}

void give_rows(const float* from, const tensor& to, int axis) {
    if (bytes_of_row(to, axis) == 0) return;
    with_type(to.type(), [&]<class Element>(Element) {
        for (std::int64_t row = 0; row < to.extent(axis); ++row)
            from = give<Element>(from, to, axis, 0, row * to.stride(axis));
    });
}

void place_rows(const std::byte* from, const tensor& to, int axis) {
    if (bytes_of_row(to, axis) == 0) return;
    for (std::int64_t row = 0; row < to.extent(axis); ++row) from = place(from, to, axis, 0, row * to.stride(axis));
}

tensor rows_of(const tensor& from, int axis, std::int64_t first, std::int64_t count) {
    std::array<std::int64_t, tensor::max_axes> extents{};
    std::ranges::copy(from.shape(), extents.begin());
    extents[static_cast<std::size_t>(axis)] = count;
    const auto shape = std::span(extents).first(from.shape().size());
    const std::int64_t offset = first * from.stride(axis) * bytes_of(from.type());
    if (!from.read_only())
        return {from.type(), static_cast<void*>(static_cast<std::byte*>(from.mutable_data()) + offset), shape,
                from.strides()};
    return {from.type(), static_cast<const void*>(static_cast<const std::byte*>(from.data()) + offset), shape,
            from.strides()};
}

}  // namespace attune::mpi::detail
