#pragma once
#include "kernel/kernel_list.hpp"

#include <attune/runtime/detail/kernel_table.hpp>

#include <memory>

namespace attune::generators::inline tuner {

/// A kernel compiled in this process, called like a linked one: memory, threads and errors go through attune's runtime.
///
/// Several threads may compile at a time.
class jit_kernel {
public:
    /// Throws std::runtime_error with the generators' sentence. `made.of` must live as long as the kernel.
    explicit jit_kernel(const listed_kernel& made);
    ~jit_kernel();
    jit_kernel(const jit_kernel&) = delete;
    jit_kernel& operator=(const jit_kernel&) = delete;

    /// For attune::detail::call. It holds only this kernel, and does not list the blocks that it visits.
    const kernel_table& table() const;

private:
    struct compiled;
    std::unique_ptr<compiled> compiled_;
};

}  // namespace attune::generators::inline tuner
