#pragma once
#include <span>
#include <string_view>

struct halide_buffer_t;

namespace attune::detail {

/// A kernel of a GPU with its arguments, as device_runtime::launch takes it.
struct device_call {
    const char* target;
    int (*kernel)(void**){};
    void** argv{};  ///< as kernel::call takes them
    std::span<halide_buffer_t* const> inputs{}, outputs{}, kept{};  ///< of argv; `kept` lies on the device only. Without host memory: `device` is an address of the caller's
    std::span<const std::string_view> names{};                      ///< of the inputs, then of the outputs
    int device{-1};                                                 ///< where tensors or options say, else -1
    void *context{}, *stream{};
    bool wait{true};
};

}  // namespace attune::detail
