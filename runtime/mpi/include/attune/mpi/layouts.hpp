#pragma once
#include <attune/mpi/work.hpp>

#include <vector>

namespace attune::mpi::detail {

/// The work of each query chunk: pairs of all its keys, in all calls of all graphs.
std::vector<double> work_of_chunks(std::span<const work_table> graphs);

/// The rank of each chunk. Of several graphs, the work is the sum, and the keys are those that any of them needs.
std::vector<int> owners(arrangement how, std::span<const work_table> graphs, int ranks);

}  // namespace attune::mpi::detail
