#include <attune/mpi/memory.hpp>

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace attune::mpi::detail {

std::shared_ptr<std::byte[]> memory_of(std::size_t bytes) {
    constexpr std::size_t large_page = std::size_t{2} << 20, cache_line = 64;
    const std::size_t alignment = bytes < large_page ? cache_line : large_page;
    const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
    auto* const made = static_cast<std::byte*>(std::aligned_alloc(alignment, whole));
    if (!made && whole > 0) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (alignment == large_page) madvise(made, whole, MADV_HUGEPAGE);  // where it is refused, pages are small
#endif
    if (made) std::memset(made, 0, whole);
    return {made, [](std::byte* all) { std::free(all); }};
}

}  // namespace attune::mpi::detail
