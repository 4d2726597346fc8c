#pragma once
#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

/// The parts of the fuzzers: bytes read as decisions, and memory that holds every view which attune accepts.
namespace fuzz {

/// Decisions from the fuzzer's bytes; zeros when they are used up.
class input {
public:
    input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

    std::uint8_t byte() { return left_ > 0 ? (--left_, *data_++) : 0; }
    bool flip() { return (byte() & 1) != 0; }
    bool rarely() { return byte() > 249; }
    std::int64_t number() {
        std::uint64_t bits = 0;
        for (int i = 0; i < 8; ++i) bits = bits << 8 | byte();
        return static_cast<std::int64_t>(bits);
    }
    template <class T, std::size_t Count> T one_of(const std::array<T, Count>& list) { return list[byte() % Count]; }

    /// Mostly small; at times what overflows something.
    std::int64_t extent() {
        if (!rarely()) return byte() % 7;
        constexpr std::array<std::int64_t, 10> odd = {-1,           0,         64,        1 << 16,   0x7fffffff,
                                                      0x80000000ll, 1ll << 40, INT64_MAX, INT64_MIN, -64};
        return rarely() ? number() : one_of(odd);
    }
    std::int64_t stride() {
        if (!rarely()) return byte();
        constexpr std::array<std::int64_t, 10> odd = {
            -1, 0, 1, -4, 1 << 20, 0x7fffffff, -0x7fffffffll, 1ll << 33, INT64_MAX, INT64_MIN};
        return rarely() ? number() : one_of(odd);
    }

private:
    const std::uint8_t* data_;
    std::size_t left_;
};

/// A view reaches at most 2^35 elements of 8 bytes, in either direction.
class arena {
public:
    static constexpr std::size_t reach = std::size_t{8} * (std::size_t{1} << 35);

    arena() {
        memory_ = static_cast<char*>(mmap(nullptr, 2 * reach + spread, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        if (memory_ == MAP_FAILED) std::abort();
    }
    /// Somewhere that whatever is accepted fits around.
    char* at(std::size_t offset) { return memory_ + reach + offset % spread; }
    /// Gives touched pages back, now and then.
    void tidy() {
        if (++uses_ % 4096 == 0) madvise(memory_, 2 * reach + spread, MADV_DONTNEED);
    }

private:
    static constexpr std::size_t spread = std::size_t{1} << 20;
    char* memory_;
    unsigned uses_ = 0;
};

}  // namespace fuzz
