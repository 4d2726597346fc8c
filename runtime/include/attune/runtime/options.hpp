#pragma once
#include <attune/runtime/threads.hpp>

#include <string_view>

namespace attune {

/// How one call is to run; given anywhere among its arguments: `run<G>(q = Q, ..., attune::options{.threads = 2})`.
struct options {
    int threads = 0;  ///< at most so many; 0: attune::threads()
    std::string_view
        target{};  ///< the ISA level; empty: ATTUNE_TARGET, else the most demanding one that is linked and runs
    /// Bits that do not depend on the batch, nor on how long the slots of a cache are beyond kv_lengths; on the number
    /// of threads they never do. ATTUNE_DETERMINISTIC=1 asks for it too. Only kernels for decode heed it: they always
    /// split the keys into as many parts.
    bool deterministic = false;
    /// Looks at every index that the formula reads from a tensor, those of each pair or channel and those that sums
    /// make, too, and refuses the call with the number of those that are outside of their axis. Such as a page table's,
    /// of each key or query, are looked at in every call. For tests: it takes longer than the kernel.
    bool checked = false;
    const parallel_for* pool = nullptr;  ///< runs the tasks of this call, and lives until it returns; null: what
                                         ///< set_parallel_for was given, else attune's threads

    /// Of kernels for a GPU (runtime/docs/devices.md).
    int device = -1;  ///< which one, by its index; -1: where the tensors say that they lie, else that of the context,
                      ///< else the first
    void* context = nullptr;  ///< a CUcontext or cl_context; null: the thread's current one in CUDA if it is of that
                              ///< device, else the device's primary one; attune's own in OpenCL
    void* stream =
        nullptr;  ///< a CUstream or cl_command_queue of that context; null: CUDA's default stream, attune's own queue
    bool wait = true;  ///< whether results are there when the call returns; with outputs in host memory they always are
};

}  // namespace attune
