#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

/// Drivers of GPUs. None is linked, so a program without one starts and runs its kernels for the CPU. The few functions
/// that are called here, besides those of Halide's support library, are declared by hand, so that no driver's header is
/// needed. Errors are attune::error.
namespace attune::detail {

void* open_library(const char* name);
void* symbol_in(void* library, const char* name);

/// A function of a driver; null if it has none of that name.
template <class Function> using driver_function = Function*;

/// Where a call runs: a CUcontext and CUstream, or a cl_context and cl_command_queue.
struct device_queue {
    void *context{}, *queue{};
};

struct cuda_functions {
    void* library{};
    driver_function<int(unsigned)> init{};
    driver_function<int(int*)> count{};
    driver_function<int(int*, int)> device{};
    driver_function<int(int*, int, int)> attribute{};
    driver_function<int(void**)> current{};
    driver_function<int(int*)> device_of_current{};
    driver_function<int(void*)> push{};
    driver_function<int(void**)> pop{};
    driver_function<int(void**, int)> primary{};
    driver_function<int(void**, const void*)> load_module{};
    driver_function<int(void*, int, int)> set_attribute{};
    driver_function<int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                        void**)>
        launch{};
    driver_function<int(std::uint64_t, const void*, std::size_t, void*)> copy_in_order{};
    driver_function<int(void*, int*)> is_capturing{};
    driver_function<int(void*)> wait{};
    driver_function<int(int, const char**)> name_of_error{}, text_of_error{};
};
/// Looked up once.
const cuda_functions& cuda_driver();
const char* cuda_lacks();
/// Whether all CUDA devices have this compute capability (ten times), as kernels for one capability need.
const char* cuda_cards_lack(int capability);
/// The caller's context; else this thread's current one, as after any call of CUDA's runtime, if it belongs to the
/// given device; else the device's primary one.
device_queue cuda_queue(int device, void* context, void* stream);
void wait_for_cuda(const device_queue& where);

// Handles as plain pointers.
struct opencl_functions {
    void* library{};
    driver_function<std::int32_t(std::uint32_t, void**, std::uint32_t*)> platforms{};
    driver_function<std::int32_t(void*, std::uint64_t, std::uint32_t, void**, std::uint32_t*)> devices{};
    driver_function<void*(const std::intptr_t*, std::uint32_t, void* const*,
                          void (*)(const char*, const void*, std::size_t, void*), void*, std::int32_t*)>
        make_context{};
    driver_function<void*(void*, void*, std::uint64_t, std::int32_t*)> make_queue{};
    driver_function<std::int32_t(void*, std::uint32_t, std::size_t, void*, std::size_t*)> about_queue{}, about_buffer{};
    driver_function<std::int32_t(void*)> wait{};
};
/// Looked up once.
const opencl_functions& opencl_driver();
const char* opencl_lacks();
/// The caller's queue and its context, else attune's own of the device.
device_queue opencl_queue(int device, void* context, void* queue);
/// Refuses a buffer of another context, or shorter than `bytes`.
void check_opencl_buffer(std::string_view name, void* buffer, const device_queue& where, bool begins_before,
                         std::size_t bytes);
void wait_for_opencl(const device_queue& where);

}  // namespace attune::detail
