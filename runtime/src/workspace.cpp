#include "workspace.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace attune::detail {
namespace {

constexpr std::size_t alignment = 128;
constexpr std::size_t most_kept = std::size_t{64} << 20;  // bytes a thread keeps; more goes back to the system

struct alignas(alignment) header {
    std::size_t capacity;
};

// Outlives the cache: a call from another thread_local's destructor finds no cache rather than a dead one.
thread_local constinit bool cache_is_gone = false;

class kept_blocks {
public:
    ~kept_blocks() {
        cache_is_gone = true;
        while (count_ > 0) std::free(blocks_[--count_]);
    }
    header* take(std::size_t capacity) {
        int best = -1;
        for (int i = 0; i < count_; ++i)
            if (blocks_[i]->capacity >= capacity && (best < 0 || blocks_[i]->capacity < blocks_[best]->capacity)) best = i;
        if (best < 0) return nullptr;
        header* const block = blocks_[best];
        blocks_[best] = blocks_[--count_];
        bytes_ -= block->capacity;
        return block;
    }
    void give(header* block) {
        if (count_ == static_cast<int>(blocks_.size())) {  // the smallest goes: it is the cheapest to make again
            const auto smallest = std::min_element(blocks_.begin(), blocks_.end(), [](header* a, header* b) { return a->capacity < b->capacity; });
            if ((*smallest)->capacity < block->capacity && bytes_ - (*smallest)->capacity + block->capacity <= most_kept) std::swap(*smallest, block), bytes_ += (*smallest)->capacity - block->capacity;
        } else if (bytes_ + block->capacity <= most_kept) {
            blocks_[count_++] = block;
            bytes_ += block->capacity;
            return;
        }
        std::free(block);
    }

private:
    std::array<header*, 16> blocks_{};
    int count_ = 0;
    std::size_t bytes_ = 0;
};

thread_local kept_blocks kept;

}  // namespace

void* take_scratch(std::size_t bytes) noexcept {
    if (bytes > SIZE_MAX / 2) return nullptr;
    const std::size_t capacity = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
    header* block = cache_is_gone ? nullptr : kept.take(capacity);
    if (!block) {
        void* const memory = std::aligned_alloc(alignment, sizeof(header) + capacity + alignment);
        if (!memory) return nullptr;
        block = new (memory) header{capacity};
    }
    return block + 1;
}

void give_scratch(void* block) noexcept {
    if (!block) return;
    header* const whole = static_cast<header*>(block) - 1;
    if (cache_is_gone) std::free(whole);
    else kept.give(whole);
}

std::size_t bytes_of_scratch(const void* block) noexcept { return (static_cast<const header*>(block) - 1)->capacity; }

}  // namespace attune::detail
