#pragma once
#include <cstddef>

#pragma GCC visibility push(hidden)
/// Scratch memory of kernels. Every thread keeps what its kernels gave back, so that the second call of a kind
/// allocates nothing. Blocks are aligned to 128 bytes and may be read 128 bytes beyond either end, as Halide asks for.
namespace attune::detail {

/// The most that a call takes of its caller's stack, which may be small: what is larger than registers lies in scratch.
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

}  // namespace attune::detail
#pragma GCC visibility pop
