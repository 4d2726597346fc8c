#pragma once
#include <attune/mpi/context.hpp>

#include <mpi.h>

#include <cstddef>
#include <memory>

namespace attune::mpi {

/// `context world(MPI_COMM_WORLD)`: MPI carries the messages, on a communicator of its own. Nothing of the caller's is
/// changed. MPI was initialized with MPI_THREAD_FUNNELED at least, and the context is used by the thread that did it.
template <> struct transport_of<MPI_Comm> {
    /// Longer messages are cut into pieces of so many bytes, the same on all ranks: MPI counts in int.
    static std::unique_ptr<transport> make(MPI_Comm communicator, const options& how,
                                           std::size_t piece = std::size_t{1} << 30);
};

}  // namespace attune::mpi
