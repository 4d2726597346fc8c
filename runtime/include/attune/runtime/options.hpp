#pragma once
#include <attune/runtime/threads.hpp>

#include <functional>
#include <string_view>

namespace attune {

/// How one call runs; passed anywhere among its arguments: `run<G>(q = Q, ..., attune::options{.threads = 2})`.
struct options {
    int threads = 0;  ///< the most threads; 0: the workers of the team that makes the call, else attune::threads()
    std::string_view
        target{};  ///< the ISA level; empty: ATTUNE_TARGET, else the most demanding one that is linked and runs
    /// The bits of results then depend neither on the batch nor on the length of a cache's slots beyond kv_lengths.
    /// They never depend on the number of threads. ATTUNE_DETERMINISTIC=1 asks for it too. It changes only kernels for
    /// decode: they always cut the keys into the same number of splits.
    bool deterministic = false;
    /// Checks every index that the formula reads from a tensor, including those of each pair or channel and those that
    /// sums make. A call with indices outside their axes is refused, with their number. Indices of each key or query,
    /// such as a page table's, are checked in every call. For tests: it takes longer than the kernel. ATTUNE_CHECKED=1
    /// asks for it too, in programs whose calls have no options, such as operators of PyTorch.
    bool checked = false;
    const parallel_for* pool = nullptr;  ///< runs the tasks of this call, and lives until it returns; null: the team
                                         ///< that makes the call, else what set_parallel_for was given, else attune's
    /// The calling thread calls it after each task of the kernel that it does itself, for work that needs this thread,
    /// such as messages. It must live until the call returns. Its exception ends the call, which throws it; outputs are
    /// then undefined.
    const std::function<void()>* between_tasks = nullptr;

    /// For kernels on a GPU (runtime/docs/devices.md).
    int device = -1;  ///< which one, by its index; -1: where the tensors say that they lie, else that of the context,
                      ///< else the first
    void* context = nullptr;  ///< a CUcontext or cl_context; null: the thread's current one in CUDA if it is of that
                              ///< device, else the device's primary one; attune's own in OpenCL
    void* stream =
        nullptr;  ///< a CUstream or cl_command_queue of that context; null: CUDA's default stream, attune's own queue
    bool wait = true;  ///< return only when results are there; with outputs in host memory always. False: return once
                       ///< the kernels are queued; inputs in pinned host memory must not change before they are done
};

}  // namespace attune
