#include "execution/workspace.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ATTUNE_FENCES
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ATTUNE_FENCES
#endif
#ifdef ATTUNE_FENCES
#include <sanitizer/asan_interface.h>
#endif

namespace attune::detail {
namespace {

constexpr std::size_t alignment = 128;
constexpr std::size_t most_kept = std::size_t{64} << 20;  // bytes a thread keeps; more goes back to the system

struct alignas(alignment) header {
    std::size_t capacity;
    std::size_t asked;  ///< of it, rounded up to the alignment: a larger block from the cache counts as this
};

/// Under AddressSanitizer a kernel may touch the bytes that it asked for, as long as it has them, and none of the rest
/// of a kept block.
void fence([[maybe_unused]] header* block, [[maybe_unused]] std::size_t open) {
#ifdef ATTUNE_FENCES
    char* const first = reinterpret_cast<char*>(block + 1);
    __asan_unpoison_memory_region(first, open);
    __asan_poison_memory_region(first + open, block->capacity + alignment - open);
#endif
}

class kept_blocks {
public:
    header* take(std::size_t capacity) {
        int best = -1;
        for (int i = count_; i-- > 0;) {  // the block that was given back last is asked for first
            const std::size_t has = blocks_[i]->capacity;
            if (has >= capacity && (best < 0 || has < blocks_[best]->capacity)) best = i;
            if (has == capacity) break;
        }
        if (best < 0) return nullptr;
        header* const block = blocks_[best];
        blocks_[best] = blocks_[--count_];
        bytes_ -= block->capacity;
        return block;
    }
    void give(header* block) {
        if (count_ == static_cast<int>(blocks_.size())) {  // the smallest goes: it is the cheapest to make again
            const auto smallest = std::min_element(blocks_.begin(), blocks_.end(),
                                                   [](header* a, header* b) { return a->capacity < b->capacity; });
            if ((*smallest)->capacity < block->capacity &&
                bytes_ - (*smallest)->capacity + block->capacity <= most_kept)
                std::swap(*smallest, block), bytes_ += (*smallest)->capacity - block->capacity;
        } else if (bytes_ + block->capacity <= most_kept) {
            blocks_[count_++] = block;
            bytes_ += block->capacity;
            return;
        }
        std::free(block);
    }

    /// Keeps nothing from now on.
    void end() {
        ended_ = true;
        while (count_ > 0) std::free(blocks_[--count_]);
    }
    /// Whether kept blocks are freed when the thread ends: not if there was no memory to register that, nor once it has
    /// ended.
    bool usable();

private:
    bool ended_ = false, registered_ = false;
    std::array<header*, 96> blocks_{};
    int count_ = 0;
    std::size_t bytes_ = 0;
};

// Without a destructor: registering one has glibc abort the program where there is no memory for it. A key's
// registration merely fails.
thread_local constinit kept_blocks kept;

pthread_once_t key_once = PTHREAD_ONCE_INIT;
pthread_key_t key;
bool has_key = false;

bool kept_blocks::usable() {
    if (registered_ || ended_) return !ended_;
    pthread_once(&key_once, [] {
        has_key = pthread_key_create(&key, [](void* blocks) { static_cast<kept_blocks*>(blocks)->end(); }) == 0;
    });
    return registered_ = has_key && pthread_setspecific(key, this) == 0;
}

}  // namespace

void* take_scratch(std::size_t bytes) noexcept {
    if (bytes > SIZE_MAX / 2) return nullptr;
    const std::size_t capacity = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
    header* block = kept.take(capacity);
    if (!block) {
        void* const memory = std::aligned_alloc(alignment, sizeof(header) + capacity + alignment);
        if (!memory) return nullptr;
        block = new (memory) header{capacity, capacity};
    }
    block->asked = capacity;
    fence(block, bytes);
    return block + 1;
}

void give_scratch(void* block) noexcept {
    if (!block) return;
    header* const whole = static_cast<header*>(block) - 1;
    fence(whole, 0);
    if (kept.usable())
        kept.give(whole);
    else
        std::free(whole);
}

std::size_t bytes_of_scratch(const void* block) noexcept { return (static_cast<const header*>(block) - 1)->asked; }

}  // namespace attune::detail
