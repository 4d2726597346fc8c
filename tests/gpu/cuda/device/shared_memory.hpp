#pragma once
#include "numbers.hpp"

#include <cstddef>
#include <vector>

namespace ptx {

/// Which mistakes in shared memory are looked for.
struct shared_checks {
    bool unwritten = true;  ///< words that are read before any thread wrote them
    bool races = false;     ///< two warps at a word between two barriers, one of them writing
};

/// The shared memory of a block, and who was where. What a function finds wrong is the sentence that it returns; null
/// if there is nothing.
///
/// A word's history has its last write and its readers since the last barrier. Warps are told apart, not the threads
/// of one, which run together. Writes of less than a word are not held against each other: neighbours may share one.
class shared_memory {
public:
    /// For a block that begins: all is unwritten.
    void begin(std::size_t bytes, const shared_checks& what);
    /// All warps have come to a barrier.
    void barrier() { ++since_; }

    u8* data() { return bytes_.data(); }
    std::size_t size() const { return bytes_.size(); }

    const char* wrong_place(u64 at, u32 bytes) const {
        return at % bytes != 0              ? "expected an address that is a multiple of the access's size"
               : at + bytes > bytes_.size() ? "expected an address in the block's shared memory"
                                            : nullptr;
    }
    const char* read(u64 at, u32 bytes, int warp) { return checks_ ? note_read(at, bytes, warp) : nullptr; }
    const char* write(u64 at, u32 bytes, int warp) { return checks_ ? note_write(at, bytes, warp) : nullptr; }
    /// A copy that will arrive some time before its warp has waited for it.
    const char* copy_begins(u64 at, u32 bytes, int warp);
    const char* copy_arrives(u64 at, u32 bytes, int warp);

private:
    struct history {
        u32 written_since = 0, read_since = 0;  ///< after which barrier
        s16 writer = -1, reader = -1;           ///< a warp, or several
        u16 copies = 0;                         ///< on their way
        bool written = false;
    };
    static constexpr s16 several = -2;
    const char* note_read(u64 at, u32 bytes, int warp);
    const char* note_write(u64 at, u32 bytes, int warp);

    std::vector<u8> bytes_;
    std::vector<history> words_;
    shared_checks what_;
    bool checks_ = false;
    u32 since_ = 1;
};

}  // namespace ptx
