#pragma once
#include <span>
#include <string_view>

struct halide_buffer_t;

namespace attune::detail {

/// A kernel of a GPU with its arguments, as device_runtime::launch takes it.
struct device_call {
    const char* target;
    int (*kernel)(void**){};  ///< null if the call only stores
    void** argv{};            ///< as kernel::call takes them
    int (*stores)(void**){};  ///< what runs before it on the same queue; null if nothing is stored
    void** stores_argv{};
    std::span<halide_buffer_t* const> inputs{}, outputs{}, stored{},  ///< inputs in host memory that `stores` writes
        kept{};  ///< of argv; `kept` lies on the device only. Without host memory: `device` is an address of the
                 ///< caller's
    std::span<const std::string_view> names{};  ///< of the inputs, then of the outputs
    int device{-1};                             ///< the one that tensors or options name, else -1
    void *context{}, *stream{};
    bool wait{true};
    bool keeps_scratch{};  ///< the kernel takes memory there for itself, and will again: what it gives back stays for
                           ///< the next call
};

/// From now on every error that this thread raises during its call belongs to the call. This is needed because a
/// support library may report errors with the context of an earlier call, or with a pointer of its own. For calls that
/// run no code of the application.
void take_all_errors();

}  // namespace attune::detail
