#pragma once
#include "gpu/drivers.hpp"

#include <mutex>

namespace attune::detail {

struct device_call;

bool is_vulkan(const device_call& call);

/// What is missing for Vulkan's kernels; empty if nothing is. No driver is linked.
const char* look_for_vulkan();

/// The function that Halide's support library should call instead of the driver's; null if it may call the driver's.
void* in_place_of_vulkans(void* library, const char* name);

/// State that holds while a call runs on Vulkan; none for calls on other devices.
class vulkan_turn {
public:
    vulkan_turn(const device_call& call, void* user_context);
    ~vulkan_turn();
    vulkan_turn(const vulkan_turn&) = delete;

private:
    std::unique_lock<std::mutex> alone_;
    void* user_context_;
};

/// Refuses a queue of the caller's, and every device except the first.
device_queue vulkan_queue(int device, void* context, void* stream);

}  // namespace attune::detail
