#pragma once
#include <attune/runtime/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

/// Rows of a tensor along one axis, one after another in memory: a chunk of keys is then one run of bytes.
namespace attune::mpi::detail {

std::size_t bytes_of_row(const tensor& from, int axis);

/// Copies the rows `which`, in this order.
void copy_rows(const tensor& from, int axis, std::span<const std::int32_t> which, std::byte* to);

/// `count` rows that lie at `data`, as a tensor with the axes of `like`.
tensor of_rows(const tensor& like, int axis, std::int64_t count, const std::byte* data);
tensor of_rows(const tensor& like, int axis, std::int64_t count, std::byte* data);

/// All rows of a tensor of floats, from numbers that lie as copy_rows leaves rows; each is rounded once.
void give_rows(const float* from, const tensor& to, int axis);

/// Copies rows that lie one after another to where a tensor has them.
void place_rows(const std::byte* from, const tensor& to, int axis);

/// `count` rows from `first` on, where they lie; they may be written where the tensor may.
tensor rows_of(const tensor& from, int axis, std::int64_t first, std::int64_t count);

/// A hash of their elements.
std::uint64_t hash_of_rows(const tensor& from, int axis, std::span<const std::int32_t> which);

}  // namespace attune::mpi::detail
