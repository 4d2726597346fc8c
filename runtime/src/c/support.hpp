#pragma once
#include <attune/c.h>
#include <attune/runtime/error.hpp>
#include <attune/runtime/threads.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <new>
#include <span>
#include <string_view>

#pragma GCC visibility push(hidden)
/// Code that the functions of attune/c.h share.
namespace attune::detail {

/// Where the sentence of this thread's last error is written: attune_error_text.
std::span<char> error_text_here() noexcept;

/// Copies as much of `text` as fits, with a terminating zero.
inline void put(std::string_view text, char* to, std::size_t capacity, std::size_t* length) noexcept {
    if (length) *length = text.size();
    if (!to || capacity == 0) return;
    const std::size_t count = std::min(text.size(), capacity - 1);
    std::memcpy(to, text.data(), count);
    to[count] = '\0';
}

/// Does something that may throw, and returns its status.
template <class Work> attune_status guarded(char* error_text, std::size_t capacity, Work work) noexcept {
    const auto ended = [&](attune_status status, const char* text) {
        put(text, error_text, capacity, nullptr);
        return status;
    };
    try {
        work();
        return ATTUNE_OK;
    } catch (const kernel_failure& e) {
        return ended(ATTUNE_FAILED, e.what());
    } catch (const error& e) {
        return ended(ATTUNE_REFUSED, e.what());
    } catch (const std::bad_alloc&) {
        return ended(ATTUNE_NO_MEMORY,
                     "attune: expected memory to prepare the call, got none; try again when there is some");
    } catch (const std::exception& e) {
        return ended(ATTUNE_FAILED, e.what());
    } catch (...) {
        return ended(ATTUNE_FAILED,
                     "attune: expected an end without an exception, got one of an unknown type; try to report this");
    }
}

inline parallel_for from_c(attune_parallel_for run, void* state) {
    return [run, state](int count, int threads, const std::function<void(int)>& task) {
        run(
            state, count, threads,
            [](void* tasks, std::int32_t index) { (*static_cast<const std::function<void(int)>*>(tasks))(index); },
            const_cast<std::function<void(int)>*>(&task));
    };
}

/// `name` is for messages, and may be empty.
void from_dlpack(const void* managed, bool versioned, std::string_view name, attune_tensor* tensor);
void to_dlpack(const attune_tensor* tensor, bool versioned, void (*release)(void*), void* owner, void** managed);

}  // namespace attune::detail
#pragma GCC visibility pop
