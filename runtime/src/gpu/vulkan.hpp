#pragma once
#include "gpu/drivers.hpp"

#include <mutex>

namespace attune::detail {

struct device_call;

bool is_vulkan(const device_call& call);

/// What lacks for Vulkan's kernels: "" is nothing. No driver is linked here either.
const char* look_for_vulkan();

/// A function of the driver as Halide's support library is to call it; null where it may call what it found.
void* in_place_of_vulkans(void* library, const char* name);

/// What holds while a call runs on Vulkan; of a call on another device, nothing.
class vulkan_turn {
public:
    vulkan_turn(const device_call& call, void* user_context);
    ~vulkan_turn();
    vulkan_turn(const vulkan_turn&) = delete;

private:
    std::unique_lock<std::mutex> alone_;
    void* user_context_;
};

/// No queue of the caller's: refuses one, and every device but the first.
device_queue vulkan_queue(int device, void* context, void* stream);

}  // namespace attune::detail
