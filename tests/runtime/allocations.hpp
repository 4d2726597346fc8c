#pragma once
#include <atomic>

/// The memory that this program takes from the system, and a way to make the system refuse: every malloc, operator new
/// and aligned_alloc passes here. Sanitizers bring allocators of their own; under them nothing is counted or refused.
namespace allocations {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool are_counted = false;
#else
inline constexpr bool are_counted = true;
#endif

inline std::atomic<bool> counting{false};
inline std::atomic<long> taken{0}, given_back{0};
inline std::atomic<long> until_refusal{-1};  ///< so many more succeed, then one is refused; negative: none is
inline std::atomic<bool> for_good{false};    ///< and all after it

/// Counts from construction to destruction, on all threads.
struct counted {
    counted() { taken = given_back = 0, counting = true; }
    ~counted() { counting = false, until_refusal = -1, for_good = false; }
    counted(const counted&) = delete;
};

}  // namespace allocations
