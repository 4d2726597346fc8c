#include "base/text.hpp"
#include "execution/device_call.hpp"
#include "gpu/drivers.hpp"
#include "gpu/vulkan.hpp"

#include <attune/runtime/detail/kernel_table.hpp>
#include <attune/runtime/error.hpp>

#include <HalideRuntime.h>
#include <HalideRuntimeCuda.h>
#include <HalideRuntimeOpenCL.h>

#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

/// Kernels of GPUs: Halide's support library calls the driver, attune says in which context and on which queue.
namespace attune::detail {
namespace {

/// The launch of this thread, for Halide's hooks.
thread_local const device_queue* current = nullptr;

bool is_cuda(const device_call& call) { return call.target == std::string_view("cuda"); }

device_queue queue_of(const device_call& call) {
    if (is_vulkan(call)) return vulkan_queue(call.device, call.context, call.stream);
    return is_cuda(call) ? cuda_queue(call.device, call.context, call.stream)
                         : opencl_queue(call.device, call.context, call.stream);
}

const char* missing(const char* target, int capability) {
    if (target == std::string_view("opencl")) {
        static const char* const lacks = opencl_lacks();
        return lacks;
    }
    if (target == std::string_view("cuda")) {
        static const char* const lacks = cuda_lacks();
        return *lacks || capability == 0 ? lacks : cuda_cards_lack(capability);
    }
    if (target == std::string_view("vulkan")) return look_for_vulkan();
    return "a driver that attune knows";
}

int say_failure(void* user_context, const char* what) {
    halide_error(user_context, what);
    return halide_error_code_generic_error;
}

/// Outside of a call none: Halide asks as the program ends, whether there is something to tidy up. The driver does
/// that.
int no_context(void* user_context, void** context, bool create) {
    return create ? say_failure(user_context, "a kernel of a GPU outside of a call of attune")
                  : (*context = nullptr, 0);
}
int cuda_context(void* user_context, void** context, bool create) {
    if (!current) return no_context(user_context, context, create);
    return *context = current->context, 0;
}
int keep_context(void*) { return 0; }
int cuda_stream(void*, void*, void** stream) { return *stream = current ? current->queue : nullptr, 0; }

void* load_library(const char* name) {
    const std::string_view wanted(name);
    if (wanted == "libcuda.so") return cuda_driver().library;
    if (wanted.starts_with("libOpenCL.so")) return opencl_driver().library;
    return open_library(name);
}

/// Halide limits all kernels to 64 registers, of which these spill; the driver knows better.
int load_module(void** module, const void* image, unsigned, void*, void**) {
    return cuda_driver().load_module(module, image);
}

/// More shared memory than every device has without a word has to be asked for, each kernel's for itself.
int launch_kernel(void* kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                  unsigned block_z, unsigned shared, void* stream, void** arguments, void** further) {
    constexpr unsigned without_asking = 48u << 10;
    constexpr int most_dynamic_shared_size = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    const cuda_functions& cuda = cuda_driver();
    if (shared > without_asking)
        if (const int code = cuda.set_attribute(kernel, most_dynamic_shared_size, static_cast<int>(shared)))
            return code;
    return cuda.launch(kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments, further);
}

/// In place of cuMemcpyHtoD, which first waits for all kernels before it. Each call brings lengths along: the device
/// would stand still for longer than a decode step takes. This one takes pageable memory at once, unless the device
/// reads such memory itself: then it is waited for, since memory that a call lends ends with the call.
int copy_to_device(std::uint64_t to, const void* from, std::size_t bytes) {
    const cuda_functions& cuda = cuda_driver();
    void* const queue = current ? current->queue : nullptr;
    constexpr int capture_unsupported = 900;  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    int captured = 0;
    if (const int code = cuda.is_capturing(queue, &captured)) return code;
    if (captured != 0) return capture_unsupported;  // a replay would read what the call lent
    if (const int code = cuda.copy_in_order(to, from, bytes, queue)) return code;
    constexpr int by_host_page_tables = 100;  // CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES
    int device = 0, reads_host = 0;
    if (const int code = cuda.device_of_current(&device)) return code;
    if (const int code = cuda.attribute(&reads_host, by_host_page_tables, device)) return code;
    return reads_host != 0 ? cuda.wait(queue) : 0;
}

/// The same for cuMemcpyHtoDAsync, which Halide calls where there is a queue: the call's.
int copy_in_queue(std::uint64_t to, const void* from, std::size_t bytes, void*) {
    return copy_to_device(to, from, bytes);
}

/// Halide keeps some pieces of memory for later calls, and frees one where it has too many. A driver frees nothing
/// while a stream is captured: a later call does.
int free_memory(std::uint64_t address) {
    static std::mutex guard;
    static std::vector<std::uint64_t> left;
    static const auto free_now =
        reinterpret_cast<int (*)(std::uint64_t)>(symbol_in(cuda_driver().library, "cuMemFree_v2"));
    const cuda_functions& cuda = cuda_driver();
    const std::lock_guard lock(guard);
    int captured = 0;
    if (current && current->queue)
        if (const int code = cuda.is_capturing(current->queue, &captured)) return code;
    if (captured != 0) return left.push_back(address), 0;
    for (; !left.empty(); left.pop_back()) free_now(left.back());  // its context may be gone, and its memory with it
    return free_now(address);
}

void* get_symbol(void* library, const char* name) {
    if (std::strcmp(name, "cuModuleLoadDataEx") == 0) return reinterpret_cast<void*>(load_module);
    if (std::strcmp(name, "cuLaunchKernel") == 0) return reinterpret_cast<void*>(launch_kernel);
    if (std::strcmp(name, "cuMemcpyHtoDAsync_v2") == 0) return reinterpret_cast<void*>(copy_in_queue);
    if (std::strcmp(name, "cuMemFree_v2") == 0) return reinterpret_cast<void*>(free_memory);
    if (std::strcmp(name, "cuMemcpyHtoD_v2") == 0) return reinterpret_cast<void*>(copy_to_device);
    if (void* const instead = in_place_of_vulkans(library, name)) return instead;
    return symbol_in(library, name);
}

/// Buffers of the caller's: that they are of this context, and as long as the view.
void check_buffers(const device_call& call, const device_queue& where) {
    std::size_t at = 0;
    for (const auto& list : {call.inputs, call.outputs})
        for (const halide_buffer_t* each : list) {
            const std::string_view name = call.names[at++];
            if (!each->device) continue;
            std::int64_t lowest = 0, highest = 0;  // in elements
            for (int axis = 0; axis < each->dimensions; ++axis) {
                const std::int64_t reach = std::int64_t{each->dim[axis].extent - 1} * each->dim[axis].stride;
                (reach < 0 ? lowest : highest) += reach;
            }
            check_opencl_buffer(name, reinterpret_cast<void*>(each->device), where, lowest < 0,
                                static_cast<std::size_t>((highest + 1) * each->type.bytes()));
        }
}

int wrap(void* user_context, const device_call& call, halide_buffer_t& buffer) {
    const std::uint64_t address = buffer.device;
    buffer.device = 0;
    return is_cuda(call) ? halide_cuda_wrap_device_ptr(user_context, &buffer, address)
                         : halide_opencl_wrap_cl_mem(user_context, &buffer, address);
}

int run(void* user_context, void* place, const device_call& call) {
    for (const auto& list : {call.inputs, call.outputs})
        for (halide_buffer_t* each : list)
            if (each->device)
                if (const int code = wrap(user_context, call, *each)) return code;
    for (halide_buffer_t* each : call.inputs)
        if (each->host) each->flags |= halide_buffer_flag_host_dirty;
    call.argv[0] = place;
    if (call.stores) {
        call.stores_argv[0] = place;
        if (const int code = call.stores(call.stores_argv)) return code;
    }
    if (call.kernel)
        if (const int code = call.kernel(call.argv)) return code;
    bool wait = call.wait;
    for (const auto& list : {call.stored, call.outputs})
        for (halide_buffer_t* each : list)
            if (each->host) {
                if (const int code = halide_copy_to_host(user_context, each)) return code;
                wait = true;  // into pinned memory a stream copies when it gets to it
            }
    return wait ? halide_device_sync(user_context, (call.kernel ? call.outputs : call.stored).front()) : 0;
}

/// Afterwards the buffer is as it was before the call, for the next one.
int give_back(void* user_context, const device_call& call, halide_buffer_t& buffer) {
    if (buffer.host) return halide_device_free(user_context, &buffer);
    const std::uint64_t address = is_cuda(call) ? halide_cuda_get_device_ptr(user_context, &buffer)
                                                : halide_opencl_get_cl_mem(user_context, &buffer);
    const int code = halide_device_detach_native(user_context, &buffer);
    buffer.device = address;
    return code;
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
    const device_queue where = queue_of(call);
    if (!is_cuda(call)) check_buffers(call, where);
    const vulkan_turn turn(call, user_context);
    const device_queue* const outer = std::exchange(current, &where);
    // CUDA's own allocations take longer than a whole decode step, and wait for the device.
    static std::once_flag kept;
    if (call.keeps_scratch) std::call_once(kept, [] { halide_reuse_device_allocations(nullptr, true); });
    int code = run(user_context, arguments[0], call);
    for (const auto& list : {call.inputs, call.outputs, call.kept})
        for (halide_buffer_t* each : list) {
            if (!each->device_interface) continue;
            const int given_back = give_back(user_context, call, *each);
            if (code == 0) code = given_back;
        }
    current = outer;
    return code;
}

void wait_for(const device_call& call) {
    if (is_vulkan(call)) return;  // whose calls have waited
    const device_queue where = queue_of(call);
    is_cuda(call) ? wait_for_cuda(where) : wait_for_opencl(where);
}

}  // namespace

const device_runtime gpus{missing, launch, wait_for};

/// In the place of Halide's own.
extern "C" int halide_acquire_cl_context(void* user_context, void** context, void** queue, bool create) {
    if (!current) return *queue = nullptr, no_context(user_context, context, create);
    return *context = current->context, *queue = current->queue, 0;
}
extern "C" int halide_release_cl_context(void*) { return 0; }

}  // namespace attune::detail
