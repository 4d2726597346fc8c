#pragma once
#include <attune/runtime/tensor.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <new>

namespace attune::testing {

/// A copy of a dense f32 tensor (batch, head, key, depth) of which some keys may not be touched: reading one of them
/// ends the program.
class fenced_tensor {
public:
    explicit fenced_tensor(const tensor& from) : rows_(from) {
        std::size_t elements = 1;
        for (int axis = 0; axis < from.rank(); ++axis) elements *= static_cast<std::size_t>(from.extent(axis));
        size_ = elements * sizeof(float);
        base_ =
            static_cast<std::byte*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        if (base_ == MAP_FAILED) throw std::bad_alloc();
        std::memcpy(base_, from.data(), size_);
    }
    ~fenced_tensor() { munmap(base_, size_); }
    fenced_tensor(const fenced_tensor&) = delete;
    fenced_tensor& operator=(const fenced_tensor&) = delete;

    /// Of one head of one batch element, the keys from `first` to before `end`. Says how many bytes are fenced: the
    /// whole pages among theirs.
    std::size_t fence(std::int64_t batch, std::int64_t head, std::int64_t first, std::int64_t end) {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        const auto at = [&](std::int64_t key) {
            return static_cast<std::size_t>(batch * rows_.stride(0) + head * rows_.stride(1) + key * rows_.stride(2)) *
                   sizeof(float);
        };
        const std::size_t from = (at(first) + page - 1) / page * page, to = at(end) / page * page;
        if (from >= to) return 0;
        if (mprotect(base_ + from, to - from, PROT_NONE) != 0) throw std::bad_alloc();
        return to - from;
    }

    tensor view() const { return {rows_.type(), static_cast<void*>(base_), rows_.shape(), rows_.strides()}; }

private:
    tensor rows_;
    std::size_t size_{};
    std::byte* base_{};
};

}  // namespace attune::testing
