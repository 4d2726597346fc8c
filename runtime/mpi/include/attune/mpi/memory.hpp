#pragma once
#include <cstddef>
#include <memory>

namespace attune::mpi::detail {

/// Zeros for messages and results. Large ones lie in large pages where the system has them: MPIs and kernels then copy
/// them in half the time.
std::shared_ptr<std::byte[]> memory_of(std::size_t bytes);

}  // namespace attune::mpi::detail
