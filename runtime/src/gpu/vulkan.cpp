#include "gpu/vulkan.hpp"

#include "base/text.hpp"
#include "execution/device_call.hpp"
#include "gpu/drivers.hpp"

#include <attune/runtime/error.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int halide_vulkan_release_unused_device_allocations(void* user_context);  // in no header of Halide's

namespace attune::detail {
namespace {

// Vulkan's functions and structures, as far as it takes to count devices.
struct instance_settings {
    std::int32_t type = 1;  // VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO
    const void* next{};
    std::uint32_t flags{};
    const void* application{};
    std::uint32_t layer_count{};
    const char* const* layers{};
    std::uint32_t extension_count{};
    const char* const* extensions{};
};
struct device_properties {
    alignas(8) std::array<std::uint32_t, 512> words{};  // the version, and some 200 more
};
using make_instance = std::int32_t(const instance_settings*, const void*, void**);
using end_instance = void(void*, const void*);
using list_devices = std::int32_t(void*, std::uint32_t*, void**);
using get_properties = void(void*, device_properties*);
constexpr std::uint32_t version_1_3 = (1u << 22) | (3u << 12);

template <class Function> Function* found(void* library, const char* name) {
    return reinterpret_cast<Function*>(symbol_in(library, name));
}

const char* look() {
    void* const library = open_library("libvulkan.so.1");
    if (!library) return "libvulkan.so.1, Vulkan's loader";
    auto* const make = found<make_instance>(library, "vkCreateInstance");
    auto* const end = found<end_instance>(library, "vkDestroyInstance");
    auto* const devices = found<list_devices>(library, "vkEnumeratePhysicalDevices");
    auto* const properties = found<get_properties>(library, "vkGetPhysicalDeviceProperties");
    const instance_settings settings;
    void* instance = nullptr;
    constexpr const char* no_driver = "a Vulkan driver (Mesa's are the package mesa-vulkan-drivers)";
    if (!make || !end || !devices || !properties || make(&settings, nullptr, &instance) != 0) return no_driver;
    std::array<void*, 16> all{};
    std::uint32_t count = all.size();
    if (devices(instance, &count, all.data()) < 0) count = 0;  // more than there is room for is no error
    bool fits = false;
    for (std::uint32_t i = 0; i < count; ++i) {
        device_properties its;
        properties(all[i], &its);
        fits = fits || its.words[0] >= version_1_3;
    }
    end(instance, nullptr);
    return count == 0 ? no_driver : fits ? "" : "a device of Vulkan 1.3";
}

// Halide 21 deals out a device's memory in pieces whose sizes it rounds once and, where the device aligns buffers to
// more than 32 bytes, a second time to more: what is written no longer fits what was dealt out, and then there seems to
// be no memory left. Sizes that are multiples of whatever buffers are aligned to stay what they are.
struct memory_requirements {
    std::uint64_t size, alignment;
    std::uint32_t types;
};
using any_function = void();
using lookup = any_function*(void*, const char*);
using get_requirements = void(void*, std::uint64_t, memory_requirements*);
struct {
    lookup *of_instance{}, *of_device{};
    get_requirements* requirements{};
} drivers;

void requirements(void* device, std::uint64_t buffer, memory_requirements* its) {
    drivers.requirements(device, buffer, its);
    const std::uint64_t unit = std::max<std::uint64_t>(
        its->alignment, 256);  // the most that the offset of a buffer in use may have to be a multiple of
    its->size = (its->size + unit - 1) / unit * unit;
}

any_function* of_device(void* device, const char* name) {
    any_function* const its = drivers.of_device(device, name);
    if (std::string_view(name) != "vkGetBufferMemoryRequirements" || !its) return its;
    drivers.requirements = reinterpret_cast<get_requirements*>(its);
    return reinterpret_cast<any_function*>(requirements);
}

any_function* of_instance(void* instance, const char* name) {
    any_function* const its = drivers.of_instance(instance, name);
    if (std::string_view(name) != "vkGetDeviceProcAddr" || !its) return its;
    drivers.of_device = reinterpret_cast<lookup*>(its);
    return reinterpret_cast<any_function*>(of_device);
}

}  // namespace

bool is_vulkan(const device_call& call) { return call.target == std::string_view("vulkan"); }

const char* look_for_vulkan() {
    static const char* const lacks = look();
    return lacks;
}

void* in_place_of_vulkans(void* library, const char* name) {
    if (std::string_view(name) != "vkGetInstanceProcAddr") return nullptr;
    drivers.of_instance = found<lookup>(library, name);
    return drivers.of_instance ? reinterpret_cast<void*>(of_instance) : nullptr;
}

// Pieces of memory that lie beside each other and are free become one, of which Halide 21 may go on using a buffer of
// the size before. Between calls it keeps none, and so has none to join; no other call is under way, so all of them can
// go.
vulkan_turn::vulkan_turn(const device_call& call, void* user_context) : user_context_(user_context) {
    if (!is_vulkan(call)) return;
    static std::mutex one_call;
    alone_ = std::unique_lock(one_call);
    take_all_errors();
}

vulkan_turn::~vulkan_turn() {
    if (alone_) halide_vulkan_release_unused_device_allocations(user_context_);
}

device_queue vulkan_queue(int device, void* context, void* stream) {
    if (context || stream)
        fail("no context or stream for Vulkan", "one", "leaving attune::options::context and stream unset");
    if (device > 0)
        fail("0 as the Vulkan device", std::to_string(device), "HL_VK_DEVICE_TYPE=discrete-gpu, integrated-gpu or cpu");
    return {};
}

}  // namespace attune::detail
