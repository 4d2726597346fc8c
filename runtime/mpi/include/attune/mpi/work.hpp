#pragma once
#include <attune/mpi/chunks.hpp>
#include <attune/mpi/planning.hpp>
#include <attune/runtime/detail/call.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace attune::mpi {

/// How many pairs of queries and keys a mask leaves, chunk by chunk, over all batch elements and heads, as the kernels
/// skip blocks. Wholly visible blocks count with all of their pairs, partly visible ones with three quarters, the time
/// that they take. Numbers are in units. Each visited block has some, so a chunk of keys is needed where there are any.
struct work_table {
    int count{};                       ///< of chunks
    double flops{};                    ///< multiplications and additions that a unit stands for
    std::vector<std::uint32_t> units;  ///< (query chunk, key chunk)
    double calls = 1;                  ///< of this graph, where several share a layout

    std::span<const std::uint32_t> row(int query_chunk) const {
        const auto width = static_cast<std::size_t>(count);
        return std::span(units).subspan(static_cast<std::size_t>(query_chunk) * width, width);
    }
};

namespace detail {

using attune::detail::named_argument;

/// The kernel for a shard's calls over many queries, which has the depths and types of `of`. It completes them.
const kernel& kernel_for(const kernel_table& table, planning& of, const attune::options& how);

/// The kernel of a call over so many queries, of one target and type and the depths of another.
const kernel& kernel_of(const kernel_table& table, const kernel& like, std::int64_t queries,
                        const attune::options& how);

/// The rows of the table for the query chunks first .. last - 1: the answers of the kernel's own blocks. Chunks that
/// are wholly visible, or not at all, need no question. `given` are the inputs that decide what is visible, over all
/// tokens. `by_kernels_alone`: asks about every block, for tests.
work_table work_of(const kernel_table& table, planning of, std::span<const named_argument> given, const chunks& tokens,
                   int first, int last, const attune::options& how, bool by_kernels_alone = false);

}  // namespace detail
}  // namespace attune::mpi
