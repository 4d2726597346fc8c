#include "allocations.hpp"

#include <cerrno>
#include <cstdlib>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// glibc's own, beneath the names that programs call. operator new ends in malloc.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
}

namespace {

bool refused() {
    using namespace allocations;
    if (!counting) return false;
    const bool now = until_refusal == 0;
    if (until_refusal >= 0 && !(now && for_good)) --until_refusal;
    if (now) {
        errno = ENOMEM;
        return true;
    }
    ++taken;
    return false;
}

}  // namespace

extern "C" {
void* malloc(std::size_t bytes) noexcept { return refused() ? nullptr : __libc_malloc(bytes); }
void* calloc(std::size_t count, std::size_t bytes) noexcept {
    return refused() ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* block, std::size_t bytes) noexcept {
    if (!block) return malloc(bytes);
    return __libc_realloc(block, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
    return refused() ? nullptr : __libc_memalign(alignment, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept { return aligned_alloc(alignment, bytes); }
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) noexcept {
    *block = aligned_alloc(alignment, bytes);
    return *block ? 0 : ENOMEM;
}
void free(void* block) noexcept {
    if (block && allocations::counting) ++allocations::given_back;
    __libc_free(block);
}
}

#endif
