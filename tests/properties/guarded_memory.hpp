#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <span>

namespace attune::testing {

/// Memory between two pages that may not be touched. Elements lie flush against the page behind them (or before them),
/// so that reading one too many ends the program.
template <class T> class guarded_memory {
public:
    enum class flush { end, begin };

    explicit guarded_memory(std::size_t count, flush to = flush::end) : count_(count) {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        const std::size_t bytes = count * sizeof(T), room = (bytes + page - 1) / page * page;
        size_ = room + 2 * page;
        base_ = static_cast<std::byte*>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        if (base_ == MAP_FAILED || (room != 0 && mprotect(base_ + page, room, PROT_READ | PROT_WRITE) != 0))
            throw std::bad_alloc();
        first_ = reinterpret_cast<T*>(base_ + page + (to == flush::end ? room - bytes : 0));
    }
    ~guarded_memory() { munmap(base_, size_); }
    guarded_memory(const guarded_memory&) = delete;
    guarded_memory& operator=(const guarded_memory&) = delete;

    T* data() { return first_; }
    std::span<T> values() { return {first_, count_}; }

private:
    std::size_t count_, size_;
    std::byte* base_;
    T* first_;
};

}  // namespace attune::testing
