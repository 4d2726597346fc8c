#pragma once
#include "counts.hpp"
#include "fault.hpp"
#include "global_memory.hpp"
#include "program.hpp"
#include "shared_memory.hpp"
#include "warp.hpp"

#include <array>
#include <bit>
#include <string>
#include <vector>

namespace ptx {

struct extent {
    unsigned x = 1, y = 1, z = 1;
    std::size_t count() const { return std::size_t{x} * y * z; }
};

/// The context of an instruction: the warp whose turn it is, those of its threads that take part, and their block.
struct execution {
    const program* of = nullptr;
    warp* now = nullptr;
    u32 mask = 0;
    shared_memory shared;
    std::vector<u8> local;  ///< of all threads of the block, one after the other
    std::vector<u8> parameters;
    const allocations* global = nullptr;   ///< null: any address is right
    std::vector<allocations::range> met;   ///< the allocation that each instruction met last
    std::vector<operation_count> counted;  ///< by instruction; empty: nothing is counted
    std::array<meeting, 16> meetings;      ///< by the barrier's number
    extent block, at;                      ///< threads of a block; which block

    u32* words(int slot) const { return now->words.data() + static_cast<std::size_t>(slot) * lanes; }
    u64* longs(int slot) const { return now->longs.data() + static_cast<std::size_t>(slot) * lanes; }
    u32& predicate(int slot) const { return now->predicates[static_cast<std::size_t>(slot)]; }
    /// The first lane's value. Types of less than 32 bits lie in words: see get and put.
    template <class T> T* values(int slot) const {
        if constexpr (sizeof(T) == 8)
            return reinterpret_cast<T*>(longs(slot));
        else
            return reinterpret_cast<T*>(words(slot));
    }
    operation_count* count_of(const instruction& i) {
        return counted.empty() ? nullptr : &counted[static_cast<std::size_t>(&i - of->code.data())];
    }

    /// Throws a fault that names the kernel, the line and the lane's thread.
    [[noreturn]] void refuse(const instruction& i, int lane, const std::string& sentence) const;
    /// Instructions of tensor cores and the like: throws unless all 32 threads are here.
    void need_whole_warp(const instruction& i) const;
};

/// f(lane) for each lane that takes part.
template <class F> void each_lane(u32 mask, F&& f) {
    if (mask == all_lanes) {
#ifndef __clang__
#pragma GCC ivdep
#endif
        for (int lane = 0; lane < lanes; ++lane) f(lane);
    } else {
        for (u32 rest = mask; rest; rest &= rest - 1) f(std::countr_zero(rest));
    }
}

template <class T> T get(const T* values, int lane) {
    if constexpr (sizeof(T) >= 4)
        return values[lane];
    else
        return values[lane * static_cast<int>(4 / sizeof(T))];
}
/// Of a narrow type the rest of the word becomes 0.
template <class T> void put(T* values, int lane, T value) {
    if constexpr (sizeof(T) >= 4)
        values[lane] = value;
    else
        reinterpret_cast<u32*>(values)[lane] = static_cast<std::make_unsigned_t<T>>(value);
}

/// Runs the warp `now` to its next barrier or to its end.
void run_warp(execution& e);

// Handlers of the way through the code.
void branch(execution& e, const instruction& i);
void leave(execution& e, const instruction& i);
void barrier(execution& e, const instruction& i);
/// A barrier with a number: `vector` is the number, `variant` twice the threads that meet there, and 1 for one that
/// waits for the others.
void meet(execution& e, const instruction& i);
void trap(execution& e, const instruction& i);
void nothing(execution& e, const instruction& i);

}  // namespace ptx
