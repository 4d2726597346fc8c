#include "counted_scratch.hpp"

#include <dlfcn.h>

#include <atomic>

namespace {
std::atomic<std::size_t> taken{0};
}

// Kernels' scratch comes from here (workspace.cpp), and nothing else in such a program does.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
    static const auto system = reinterpret_cast<void* (*)(std::size_t, std::size_t)>(dlsym(RTLD_NEXT, "aligned_alloc"));
    taken += bytes;
    return system(alignment, bytes);
}

std::size_t attune::testing::scratch_taken() { return taken; }
