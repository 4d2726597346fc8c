#pragma once
#include <attune/mpi/transport.hpp>
#include <attune/runtime/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

/// Rows of a tensor along one axis, such as a rank's keys, in memory of their own: dense, with the axes in their order,
/// as kernels read them best. A run of keys is then a piece of each head's.
namespace attune::mpi::detail {

std::size_t bytes_of_row(const tensor& from, int axis);

/// A dense tensor at `data` with the axes of `like`, and `count` rows.
tensor of_rows(const tensor& like, int axis, std::int64_t count, const std::byte* data);
tensor of_rows(const tensor& like, int axis, std::int64_t count, std::byte* data);

/// `count` rows from `first` on, where they lie; they may be written where the tensor may.
tensor rows_of(const tensor& from, int axis, std::int64_t first, std::int64_t count);

/// The same of a dense tensor, as a message.
outgoing sent_rows(const tensor& from, int axis, std::int64_t first, std::int64_t count,
                   std::shared_ptr<const void> owner);
incoming received_rows(const tensor& to, int axis, std::int64_t first, std::int64_t count,
                       std::shared_ptr<const void> owner);

/// Copies all elements between tensors of one shape and type, wherever they have them.
void copy(const tensor& from, const tensor& to);

/// Copies the rows `which`, in this order, as a dense tensor.
void copy_rows(const tensor& from, int axis, std::span<const std::int32_t> which, std::byte* to);

/// All elements of a tensor of floats, from dense numbers; each is rounded once.
void give(const float* from, const tensor& to);

/// A hash of the elements of the rows `which`.
std::uint64_t hash_of_rows(const tensor& from, int axis, std::span<const std::int32_t> which);

}  // namespace attune::mpi::detail
