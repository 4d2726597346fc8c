#pragma once
#include <cstddef>
#include <memory_resource>
#include <new>

#pragma GCC visibility push(hidden)
/// Scratch memory of kernels. Every thread keeps the blocks that its kernels gave back, so the second call of a kind
/// allocates nothing. Blocks are aligned to 128 bytes and may be read 128 bytes beyond either end, as Halide asks for.
namespace attune::detail {

/// The most that a call takes of its caller's stack, which may be small: everything larger than registers lies in
/// scratch.
inline constexpr std::size_t most_stack = 16384;

void* take_scratch(std::size_t bytes) noexcept;  ///< null where there is no memory
void give_scratch(void* block) noexcept;         ///< on any thread
std::size_t bytes_of_scratch(const void* block) noexcept;

/// A block that goes back with its scope.
class scratch {
public:
    scratch() = default;
    explicit scratch(std::size_t bytes) noexcept : block_(take_scratch(bytes)) {}
    ~scratch() { give_scratch(block_); }
    scratch(const scratch&) = delete;
    /// Takes another block in the place of the one that it had.
    void* take(std::size_t bytes) noexcept {
        give_scratch(block_);
        return block_ = take_scratch(bytes);
    }
    std::byte* data() const { return static_cast<std::byte*>(block_); }  ///< null where there was no memory

private:
    void* block_{};
};

/// Memory of containers that live for one call.
class scratch_memory final : public std::pmr::memory_resource {
    void* do_allocate(std::size_t bytes, std::size_t) override {  // blocks are aligned for everything
        void* const block = take_scratch(bytes);
        if (!block) throw std::bad_alloc();
        return block;
    }
    void do_deallocate(void* block, std::size_t, std::size_t) override { give_scratch(block); }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
};

}  // namespace attune::detail
#pragma GCC visibility pop
