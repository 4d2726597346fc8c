#include "mpi/src/transport/elements.hpp"

#include <attune/mpi/rows.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

namespace attune::mpi::detail {
namespace {

std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

std::size_t element_of(const tensor& each) { return static_cast<std::size_t>(bytes_of(each.type())); }

/// The first axis from which on the elements lie one after another.
int dense_from(const tensor& each) {
    std::int64_t inside = 1;
    int axis = each.rank();
    for (; axis > 0; --axis) {
        if (each.extent(axis - 1) != 1 && each.stride(axis - 1) != inside) break;
        inside *= each.extent(axis - 1);
    }
    return axis;
}

/// Bytes of what lies within one index of the axes before `axis`.
std::size_t bytes_within(const tensor& each, int axis) {
    std::size_t bytes = element_of(each);
    for (; axis < each.rank(); ++axis) bytes *= static_cast<std::size_t>(each.extent(axis));
    return bytes;
}

/// Copies `bytes` at each index of the axes before `dense`.
void copy(const tensor& from, const std::byte* at, const tensor& to, std::byte* there, int axis, int dense,
          std::size_t bytes) {
    if (axis == dense) {
        std::memcpy(there, at, bytes);
        return;
    }
    const std::int64_t step = from.stride(axis) * bytes_of(from.type()),
                       there_step = to.stride(axis) * bytes_of(to.type());
    for (std::int64_t i = 0; i < from.extent(axis); ++i)
        copy(from, at + i * step, to, there + i * there_step, axis + 1, dense, bytes);
}

template <class Element> const float* give(const float* from, const tensor& to, int axis, std::int64_t offset) {
    if (axis >= to.rank()) {
        static_cast<Element*>(to.mutable_data())[offset] = Element(*from);
        return from + 1;
    }
    for (std::int64_t i = 0; i < to.extent(axis); ++i)
        from = give<Element>(from, to, axis + 1, offset + i * to.stride(axis));
    return from;
}

template <class Byte> tensor dense(const tensor& like, int axis, std::int64_t count, Byte* data) {
    std::array<std::int64_t, tensor::max_axes> extents{};
    std::ranges::copy(like.shape(), extents.begin());
    extents[at(axis)] = count;
    return {like.type(), data, std::span(extents).first(at(like.rank()))};
}

template <class Byte>
message<Byte> message_of(const tensor& all, Byte* data, int axis, std::int64_t first, std::int64_t count,
                         std::shared_ptr<const void> owner) {
    const std::size_t row = bytes_within(all, axis + 1), plane = bytes_within(all, axis), whole = bytes_within(all, 0);
    return {{data + static_cast<std::size_t>(first) * row, static_cast<std::size_t>(count) * row},
            std::move(owner),
            plane == 0 ? 1 : whole / plane,
            plane};
}

}  // namespace

std::size_t bytes_of_row(const tensor& from, int axis) {
    auto bytes = element_of(from);
    for (int a = 0; a < from.rank(); ++a)
        if (a != axis) bytes *= static_cast<std::size_t>(from.extent(a));
    return bytes;
}

void copy(const tensor& from, const tensor& to) {
    if (bytes_within(from, 0) == 0) return;
    const int dense = std::max(dense_from(from), dense_from(to));
    copy(from, static_cast<const std::byte*>(from.data()), to, static_cast<std::byte*>(to.mutable_data()), 0, dense,
         bytes_within(from, dense));
}

void copy_rows(const tensor& from, int axis, std::span<const std::int32_t> which, std::byte* to) {
    const tensor all = of_rows(from, axis, std::ssize(which), to);
    for (std::int64_t i = 0; i < std::ssize(which); ++i)
        copy(rows_of(from, axis, which[static_cast<std::size_t>(i)], 1), rows_of(all, axis, i, 1));
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
    return dense(like, axis, count, static_cast<const void*>(data));
}
tensor of_rows(const tensor& like, int axis, std::int64_t count, std::byte* data) {
    return dense(like, axis, count, static_cast<void*>(data));
}

outgoing sent_rows(const tensor& from, int axis, std::int64_t first, std::int64_t count,
                   std::shared_ptr<const void> owner) {
    return message_of(from, static_cast<const std::byte*>(from.data()), axis, first, count, std::move(owner));
}
incoming received_rows(const tensor& to, int axis, std::int64_t first, std::int64_t count,
                       std::shared_ptr<const void> owner) {
    return message_of(to, static_cast<std::byte*>(to.mutable_data()), axis, first, count, std::move(owner));
}

void give(const float* from, const tensor& to) {
    if (bytes_within(to, 0) == 0) return;
    with_type(to.type(), [&]<class Element>(Element) { give<Element>(from, to, 0, 0); });
}

tensor rows_of(const tensor& from, int axis, std::int64_t first, std::int64_t count) {
    std::array<std::int64_t, tensor::max_axes> extents{};
    std::ranges::copy(from.shape(), extents.begin());
    extents[at(axis)] = count;
    const auto shape = std::span(extents).first(from.shape().size());
    const std::int64_t offset = first * from.stride(axis) * bytes_of(from.type());
    if (!from.read_only())
        return {from.type(), static_cast<void*>(static_cast<std::byte*>(from.mutable_data()) + offset), shape,
                from.strides()};
    return {from.type(), static_cast<const void*>(static_cast<const std::byte*>(from.data()) + offset), shape,
            from.strides()};
}

}  // namespace attune::mpi::detail
