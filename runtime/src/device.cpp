#include "device.hpp"

#include <attune/runtime/kernel_table.hpp>

#include <HalideRuntime.h>
#include <HalideRuntimeCuda.h>
#include <HalideRuntimeOpenCL.h>

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

/// Kernels of GPUs. No driver is linked: where there is none, a program starts and runs its kernels for the CPU. The little that is called here beside Halide's
/// support library is declared by hand, so that no header of a driver is needed either.
namespace attune::detail {
namespace {

/// What this thread is launching; Halide's hooks ask.
thread_local const device_call* current = nullptr;

/// A driver's library: what is installed with the driver, not the name without a version, which comes with a developer's package.
void* open_driver(const char* name, const char* developers) {
    if (void* const library = dlopen(name, RTLD_LAZY)) return library;
    return dlopen(developers, RTLD_LAZY);
}
void* cuda_driver() { return open_driver("libcuda.so.1", "libcuda.so"); }
void* opencl_driver() { return open_driver("libOpenCL.so.1", "libOpenCL.so"); }

template <class Function> Function* found(void* library, const char* name) { return reinterpret_cast<Function*>(dlsym(library, name)); }

// OpenCL's functions, with handles as plain pointers.
using cl_platforms = std::int32_t(std::uint32_t, void**, std::uint32_t*);
using cl_devices = std::int32_t(void*, std::uint64_t, std::uint32_t, void**, std::uint32_t*);
using cl_make_context = void*(const std::intptr_t*, std::uint32_t, void* const*, void (*)(const char*, const void*, std::size_t, void*), void*, std::int32_t*);
using cl_make_queue = void*(void*, void*, std::uint64_t, std::int32_t*);
constexpr std::uint64_t cl_any_device = 0xffffffffu;

struct cl_device {
    void *platform{}, *device{};
};

/// Device `index` of all platforms' in turn.
cl_device cl_device_number(int index, std::uint32_t& platform_count) {
    void* const library = opencl_driver();
    auto* const platforms = found<cl_platforms>(library, "clGetPlatformIDs");
    auto* const devices = found<cl_devices>(library, "clGetDeviceIDs");
    std::array<void*, 16> of_driver{}, of_platform{};
    platform_count = 0;
    if (!platforms || !devices || platforms(of_driver.size(), of_driver.data(), &platform_count) != 0) return {};
    for (std::uint32_t p = 0; p < platform_count && p < of_driver.size(); ++p) {
        std::uint32_t count = 0;
        if (devices(of_driver[p], cl_any_device, of_platform.size(), of_platform.data(), &count) != 0) continue;
        if (index >= 0 && index < static_cast<int>(count)) return {of_driver[p], of_platform[static_cast<std::size_t>(index)]};
        index -= static_cast<int>(count);
    }
    return {};
}

const char* look_for_opencl() {
    if (!opencl_driver()) return "libOpenCL.so.1, OpenCL's loader";
    std::uint32_t platforms = 0;
    const cl_device first = cl_device_number(0, platforms);
    if (platforms == 0) return "an OpenCL driver (PoCL's is the package pocl-opencl-icd)";
    return first.device ? "" : "an OpenCL device";
}

const char* look_for_cuda() {
    void* const library = cuda_driver();
    if (!library) return "libcuda.so.1, NVIDIA's driver";
    auto* const start = found<int(unsigned)>(library, "cuInit");
    auto* const count = found<int(int*)>(library, "cuDeviceGetCount");
    int devices = 0;
    if (!start || !count || start(0) != 0) return "a CUDA driver that starts";
    return count(&devices) == 0 && devices > 0 ? "" : "a CUDA device";
}

const char* missing(const char* target) {
    if (target == std::string_view("opencl")) {
        static const char* const lacks = look_for_opencl();
        return lacks;
    }
    if (target == std::string_view("cuda")) {
        static const char* const lacks = look_for_cuda();
        return lacks;
    }
    return "a driver that attune knows";
}

int say_failure(void* user_context, const char* what) {
    halide_error(user_context, what);
    return halide_error_code_generic_error;
}

/// attune's own context and queue of each OpenCL device, made when first asked for and kept.
int own_cl_context(void* user_context, int index, void** context, void** queue) {
    struct own {
        void *context{}, *queue{};
    };
    static std::array<own, 16> all;
    static std::mutex guard;
    if (index < 0 || index >= static_cast<int>(all.size())) return say_failure(user_context, "expected an OpenCL device that there is; try attune::options::device = 0");
    const std::lock_guard lock(guard);
    own& its = all[static_cast<std::size_t>(index)];
    if (!its.queue) {
        std::uint32_t platforms = 0;
        const cl_device at = cl_device_number(index, platforms);
        if (!at.device) return say_failure(user_context, "expected an OpenCL device of that number, got fewer; try attune::options::device = 0");
        const std::intptr_t properties[] = {0x1084, reinterpret_cast<std::intptr_t>(at.platform), 0};  // CL_CONTEXT_PLATFORM
        std::int32_t code = 0;
        its.context = found<cl_make_context>(opencl_driver(), "clCreateContext")(properties, 1, &at.device, nullptr, nullptr, &code);
        if (code == 0) its.queue = found<cl_make_queue>(opencl_driver(), "clCreateCommandQueue")(its.context, at.device, 0, &code);
        if (code != 0) return say_failure(user_context, "OpenCL gives no context for its device");
    }
    *context = its.context, *queue = its.queue;
    return 0;
}

/// The caller's context, else what is current in this thread, as after any call of CUDA's runtime, else the device's primary one.
int cuda_context(void*, void** context, bool) {
    if (current && current->context) return *context = current->context, 0;
    void* const library = cuda_driver();
    if (found<int(void**)>(library, "cuCtxGetCurrent")(context) == 0 && *context) return 0;
    int device = 0;
    if (const int code = found<int(int*, int)>(library, "cuDeviceGet")(&device, current ? current->device : 0)) return code;
    return found<int(void**, int)>(library, "cuDevicePrimaryCtxRetain")(context, device);  // kept as long as the program runs
}
int keep_context(void*) { return 0; }
int cuda_stream(void*, void*, void** stream) { return *stream = current ? current->stream : nullptr, 0; }

void* load_library(const char* name) {
    const std::string_view wanted(name);
    if (wanted == "libcuda.so") return cuda_driver();
    if (wanted.starts_with("libOpenCL.so")) return opencl_driver();
    return dlopen(name, RTLD_LAZY);
}

/// Halide limits all kernels to 64 registers, of which these spill; the driver knows better.
int load_module(void** module, const void* image, unsigned, void*, void**) {
    return found<int(void**, const void*)>(cuda_driver(), "cuModuleLoadData")(module, image);
}

/// More shared memory than every device has without a word has to be asked for, each kernel's for itself.
int launch_kernel(void* kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, void* stream, void** arguments,
                  void** further) {
    constexpr unsigned without_asking = 48u << 10;
    constexpr int most_dynamic_shared_size = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    if (shared > without_asking)
        if (const int code = found<int(void*, int, int)>(cuda_driver(), "cuFuncSetAttribute")(kernel, most_dynamic_shared_size, static_cast<int>(shared))) return code;
    using launching = int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
    return found<launching>(cuda_driver(), "cuLaunchKernel")(kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments, further);
}

void* get_symbol(void* library, const char* name) {
    if (std::strcmp(name, "cuModuleLoadDataEx") == 0) return reinterpret_cast<void*>(load_module);
    if (std::strcmp(name, "cuLaunchKernel") == 0) return reinterpret_cast<void*>(launch_kernel);
    return dlsym(library, name);
}

int wrap(void* user_context, const device_call& call, halide_buffer_t& buffer) {
    const std::uint64_t address = buffer.device;
    buffer.device = 0;
    if (call.target == std::string_view("cuda")) return halide_cuda_wrap_device_ptr(user_context, &buffer, address);
    return halide_opencl_wrap_cl_mem(user_context, &buffer, address);
}

int run(void* user_context, void* place, const device_call& call) {
    for (const auto& list : {call.inputs, call.outputs})
        for (halide_buffer_t* each : list)
            if (each->device)
                if (const int code = wrap(user_context, call, *each)) return code;
    for (halide_buffer_t* each : call.inputs)
        if (each->host) each->flags |= halide_buffer_flag_host_dirty;
    call.argv[0] = place;
    if (const int code = call.kernel(call.argv)) return code;
    bool there = !call.wait;
    for (halide_buffer_t* each : call.outputs)
        if (each->host) {
            if (const int code = halide_copy_to_host(user_context, each)) return code;
            there = true;  // copies follow the kernel
        }
    return there ? 0 : halide_device_sync(user_context, call.outputs.front());
}

int launch(void** arguments) {
    static std::once_flag once;
    std::call_once(once, [] {
        halide_set_custom_load_library(load_library);
        halide_set_custom_get_library_symbol(get_symbol);
        halide_set_cuda_acquire_context(cuda_context);
        halide_set_cuda_release_context(keep_context);
        halide_set_cuda_get_stream(cuda_stream);
    });
    const device_call& call = *static_cast<device_call*>(arguments[1]);
    void* const user_context = *static_cast<void**>(arguments[0]);
    const device_call* const outer = std::exchange(current, &call);
    int code = run(user_context, arguments[0], call);
    for (const auto& list : {call.inputs, call.outputs, call.kept})
        for (halide_buffer_t* each : list) {
            if (!each->device_interface) continue;
            const int given_back = each->host ? halide_device_free(user_context, each) : halide_device_detach_native(user_context, each);
            if (code == 0) code = given_back;
        }
    current = outer;
    return code;
}

}  // namespace

const device_runtime gpus{missing, launch};

/// In the place of Halide's own.
extern "C" int halide_acquire_cl_context(void* user_context, void** context, void** queue, bool) {
    if (!current || !current->context) return own_cl_context(user_context, current ? current->device : 0, context, queue);
    *context = current->context, *queue = current->stream;
    return *queue ? 0 : say_failure(user_context, "expected a command queue beside the OpenCL context, got none; try attune::options::stream");
}
extern "C" int halide_release_cl_context(void*) { return 0; }

}  // namespace attune::detail
