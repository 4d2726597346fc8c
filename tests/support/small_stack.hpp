#pragma once
#include <sys/mman.h>

#include <pthread.h>
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <stdexcept>

/// Threads whose stack is small, such as those of coroutines, of other languages and of musl.
namespace attune::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool frames_grow = true;
#else
inline constexpr bool frames_grow = false;
#endif

inline constexpr std::size_t most_of_a_stack = 16384;  ///< what a call takes of its caller's, at most
inline constexpr std::size_t small_stack = std::size_t{32} << 10, roomy_stack = std::size_t{256} << 10;

/// How many bytes of a stack of so many a thread that does this touches, which has nothing behind its end.
inline std::size_t touched(std::size_t size, const std::function<void()>& work) {
    const auto expect = [](bool truth, const char* what) {
        if (!truth) throw std::runtime_error(what);  // of any thread: Catch2's own checks are for one
    };
    constexpr std::size_t page = 4096;
    constexpr int paint = 0xa5;
    void* const mapped = mmap(nullptr, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(mapped != MAP_FAILED, "no memory for a stack");
    auto* const all = static_cast<unsigned char*>(mapped);
    expect(mprotect(all, page, PROT_NONE) == 0, "no guard behind a stack");
    unsigned char* const stack = all + page;
    std::memset(stack, paint, size);
    pthread_attr_t how;
    pthread_attr_init(&how);
    expect(pthread_attr_setstack(&how, stack, size) == 0, "no thread has a stack of so many bytes");
    pthread_t thread{};
    expect(pthread_create(
               &thread, &how,
               [](void* given) -> void* {
                   (*static_cast<const std::function<void()>*>(given))();
                   return nullptr;
               },
               const_cast<std::function<void()>*>(&work)) == 0,
           "no thread was started");
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&how);
    const auto first = std::find_if(stack, stack + size, [](unsigned char byte) { return byte != paint; });
    const auto used = static_cast<std::size_t>(stack + size - first);
    munmap(all, size + page);
    return used;
}

}  // namespace attune::testing
