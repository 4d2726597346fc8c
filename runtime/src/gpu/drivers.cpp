#include "gpu/drivers.hpp"
#include "base/text.hpp"

#include <attune/runtime/error.hpp>

#include <dlfcn.h>

#include <mutex>
#include <string>

namespace attune::detail {
namespace {

/// A driver's library as the driver installs it, not the name without a version, which comes with a developer's
/// package.
void* open_driver(const char* name, const char* developers) {
    if (void* const library = open_library(name)) return library;
    return open_library(developers);
}

template <class Function> void look_up(void* library, Function*& to, const char* name) {
    to = reinterpret_cast<Function*>(symbol_in(library, name));
}

[[noreturn]] void refuse_index(std::string_view target, int device, int count) {
    fail(say("a device of ", target, " from 0 to ", count - 1, ", as many as there are"), say("device ", device),
         "attune::options::device = 0");
}
[[noreturn]] void refuse_context(std::string_view what, int device) {
    fail(say(what, " of device ", device, ", where tensors or attune::options::device say that the call runs"),
         "one of another device", "leaving attune::options::device unset, or the device's own context");
}

// CUDA

cuda_functions find_cuda() {
    cuda_functions cuda{.library = open_driver("libcuda.so.1", "libcuda.so")};
    const auto find = [&](auto& function, const char* name) { look_up(cuda.library, function, name); };
    find(cuda.init, "cuInit"), find(cuda.count, "cuDeviceGetCount"), find(cuda.device, "cuDeviceGet");
    find(cuda.attribute, "cuDeviceGetAttribute");
    find(cuda.current, "cuCtxGetCurrent"), find(cuda.device_of_current, "cuCtxGetDevice"),
        find(cuda.push, "cuCtxPushCurrent_v2"), find(cuda.pop, "cuCtxPopCurrent_v2");
    find(cuda.primary, "cuDevicePrimaryCtxRetain"), find(cuda.load_module, "cuModuleLoadData"),
        find(cuda.set_attribute, "cuFuncSetAttribute");
    find(cuda.launch, "cuLaunchKernel"), find(cuda.copy_in_order, "cuMemcpyHtoDAsync_v2"),
        find(cuda.is_capturing, "cuStreamIsCapturing"), find(cuda.wait, "cuStreamSynchronize");
    find(cuda.name_of_error, "cuGetErrorName"), find(cuda.text_of_error, "cuGetErrorString");
    return cuda;
}

bool complete(const cuda_functions& f) {
    return f.init && f.count && f.device && f.attribute && f.current && f.device_of_current && f.push && f.pop &&
           f.primary && f.load_module && f.set_attribute && f.launch && f.copy_in_order && f.is_capturing && f.wait &&
           f.name_of_error && f.text_of_error;
}

/// In CUDA's words: "CUDA_ERROR_INVALID_CONTEXT, invalid device context".
std::string cuda_words(int code) {
    const char *name = nullptr, *text = nullptr;
    cuda_driver().name_of_error(code, &name), cuda_driver().text_of_error(code, &text);
    return name ? say(name, ", ", text ? text : "") : say("error ", code, " of CUDA");
}
void check_cuda(int code, const char* wanted) {
    if (code != 0) fail(wanted, cuda_words(code), "a context that is alive, or none");
}

class current_context {
public:
    explicit current_context(void* context) {
        check_cuda(cuda_driver().push(context), "a CUDA context in attune::options::context");
    }
    ~current_context() {
        void* before = nullptr;
        cuda_driver().pop(&before);
    }
    current_context(const current_context&) = delete;
};

/// CUDA's handle of device `index`.
int cuda_device(int index) {
    int count = 0, device = 0;
    check_cuda(cuda_driver().count(&count), "a CUDA driver that counts its devices");
    if (index >= count) refuse_index("cuda", index, count);
    check_cuda(cuda_driver().device(&device, index), "a CUDA device");
    return device;
}

// OpenCL

constexpr std::uint64_t any_device = 0xffffffffu;
constexpr std::uint32_t queue_context = 0x1090, queue_device = 0x1091, buffer_size = 0x1102, buffer_context = 0x1106;

opencl_functions find_opencl() {
    opencl_functions cl{.library = open_driver("libOpenCL.so.1", "libOpenCL.so")};
    const auto find = [&](auto& function, const char* name) { look_up(cl.library, function, name); };
    find(cl.platforms, "clGetPlatformIDs"), find(cl.devices, "clGetDeviceIDs"),
        find(cl.make_context, "clCreateContext"), find(cl.make_queue, "clCreateCommandQueue");
    find(cl.about_queue, "clGetCommandQueueInfo"), find(cl.about_buffer, "clGetMemObjectInfo"),
        find(cl.wait, "clFinish");
    return cl;
}
bool complete(const opencl_functions& f) {
    return f.platforms && f.devices && f.make_context && f.make_queue && f.about_queue && f.about_buffer && f.wait;
}

struct opencl_devices {
    struct one {
        void *platform{}, *device{}, *context{},
            *queue{};  ///< attune's own context and queue, once they were asked for
    };
    std::uint32_t platforms = 0;
    int count = 0;
    std::array<one, 16> of{};
    std::mutex guard{};

    opencl_devices() {
        const opencl_functions& cl = opencl_driver();
        std::array<void*, 16> of_driver{}, of_platform{};
        if (!complete(cl) || cl.platforms(of_driver.size(), of_driver.data(), &platforms) != 0) return;
        for (std::uint32_t p = 0; p < platforms && p < of_driver.size(); ++p) {
            std::uint32_t here = 0;
            if (cl.devices(of_driver[p], any_device, of_platform.size(), of_platform.data(), &here) != 0) continue;
            for (std::uint32_t i = 0; i < here && i < of_platform.size() && count < static_cast<int>(of.size()); ++i) {
                one& next = of[static_cast<std::size_t>(count++)];
                next.platform = of_driver[p], next.device = of_platform[i];
            }
        }
    }
};
/// Those of all platforms, one after the other.
opencl_devices& all_opencl_devices() {
    static opencl_devices all;
    return all;
}

opencl_devices::one& opencl_device(int index) {
    opencl_devices& all = all_opencl_devices();
    if (index >= all.count) refuse_index("opencl", index, all.count);
    return all.of[static_cast<std::size_t>(index)];
}

/// A property of a handle that is a handle itself; null where the driver knows no such object.
template <class Question> void* handle_of(Question* ask, void* object, std::uint32_t what) {
    void* answer = nullptr;
    return ask(object, what, sizeof answer, &answer, nullptr) == 0 ? answer : nullptr;
}

}  // namespace

void* open_library(const char* name) { return dlopen(name, RTLD_LAZY); }
void* symbol_in(void* library, const char* name) { return library ? dlsym(library, name) : nullptr; }

const cuda_functions& cuda_driver() {
    static const cuda_functions functions = find_cuda();
    return functions;
}

const char* cuda_lacks() {
    const cuda_functions& cuda = cuda_driver();
    if (!cuda.library) return "libcuda.so.1, NVIDIA's driver";
    int devices = 0;
    if (!complete(cuda) || cuda.init(0) != 0) return "a CUDA driver that starts";
    return cuda.count(&devices) == 0 && devices > 0 ? "" : "a CUDA device";
}

const char* cuda_cards_lack(int capability) {
    constexpr int major = 75, minor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
    static const int common = [] {
        const cuda_functions& cuda = cuda_driver();
        int devices = 0, of_all = 0;
        cuda.count(&devices);
        for (int index = 0; index < devices; ++index) {
            int device = 0, has[2]{};
            cuda.device(&device, index);
            cuda.attribute(&has[0], major, device), cuda.attribute(&has[1], minor, device);
            const int its = 10 * has[0] + has[1];  // 0 where the driver does not say
            of_all = index == 0 || its == of_all ? its : -1;
        }
        return of_all;
    }();
    if (common == capability) return "";
    return "CUDA devices all of compute capability 9.0";  // the one that kernels are made for alone
}

device_queue cuda_queue(int device, void* context, void* stream) {
    const cuda_functions& cuda = cuda_driver();
    int of_context = 0;
    if (context) {
        const int wanted = device < 0 ? 0 : cuda_device(device);
        const current_context now(context);
        check_cuda(cuda.device_of_current(&of_context), "a CUDA context in attune::options::context");
        if (device >= 0 && of_context != wanted) refuse_context("a CUDA context", device);
        return {context, stream};
    }
    const int wanted = device < 0 ? 0 : cuda_device(device);
    if (cuda.current(&context) == 0 && context &&
        (device < 0 || (cuda.device_of_current(&of_context) == 0 && of_context == wanted)))
        return {context, stream};
    check_cuda(cuda.primary(&context, device < 0 ? cuda_device(0) : wanted),
               "a context of the CUDA device");  // kept as long as the program runs
    return {context, stream};
}

void wait_for_cuda(const device_queue& where) {
    const current_context now(where.context);
    if (const int code = cuda_driver().wait(where.queue))
        throw kernel_failure(
            refusal("kernels that finish", cuda_words(code), "the calls with wait = true, to see which one fails"));
}

const opencl_functions& opencl_driver() {
    static const opencl_functions functions = find_opencl();
    return functions;
}

const char* opencl_lacks() {
    if (!opencl_driver().library) return "libOpenCL.so.1, OpenCL's loader";
    if (all_opencl_devices().platforms == 0) return "an OpenCL driver (PoCL's is the package pocl-opencl-icd)";
    return all_opencl_devices().count > 0 ? "" : "an OpenCL device";
}

device_queue opencl_queue(int device, void* context, void* queue) {
    const opencl_functions& cl = opencl_driver();
    void* const wanted = device < 0 ? nullptr : opencl_device(device).device;
    if (context && !queue) fail("a command queue beside the OpenCL context", "none", "attune::options::stream");
    if (queue) {
        void* const its = handle_of(cl.about_queue, queue, queue_context);
        if (!its || (context && its != context))
            fail("a command queue of the context in attune::options", "another",
                 "one that clCreateCommandQueue made of that context");
        if (wanted && handle_of(cl.about_queue, queue, queue_device) != wanted)
            refuse_context("a command queue", device);
        return {its, queue};
    }
    opencl_devices::one& own = opencl_device(device < 0 ? 0 : device);
    const std::lock_guard lock(all_opencl_devices().guard);
    std::int32_t code = 0;
    if (!own.context) {
        const std::intptr_t properties[] = {0x1084, reinterpret_cast<std::intptr_t>(own.platform),
                                            0};  // CL_CONTEXT_PLATFORM
        own.context = cl.make_context(properties, 1, &own.device, nullptr, nullptr, &code);
    }
    if (code == 0 && !own.queue) own.queue = cl.make_queue(own.context, own.device, 0, &code);
    if (code != 0)
        fail("a context and a queue of the OpenCL device", say("error ", code),
             "attune::options::context and stream with those of the application");
    return {own.context, own.queue};
}

void check_opencl_buffer(std::string_view name, void* buffer, const device_queue& where, bool begins_before,
                         std::size_t bytes) {
    const opencl_functions& cl = opencl_driver();
    if (begins_before)
        fail(say("elements of ", name, " from the first of its OpenCL buffer on"), "a negative stride",
             "a copy of them in the order of their axes");
    if (handle_of(cl.about_buffer, buffer, buffer_context) != where.context)
        fail(say(name, " in an OpenCL buffer of the call's context"), "a buffer of another",
             "attune::options::context and stream of the buffers");
    std::size_t has = 0;
    if (cl.about_buffer(buffer, buffer_size, sizeof has, &has, nullptr) != 0 || has < bytes)
        fail(say("an OpenCL buffer of at least ", bytes, " bytes for ", name), say(has),
             "the shape and strides of what is in the buffer");
}

void wait_for_opencl(const device_queue& where) {
    if (const std::int32_t code = opencl_driver().wait(where.queue))
        throw kernel_failure(refusal("kernels that finish", say("error ", code, " of OpenCL"),
                                     "the calls with wait = true, to see which one fails"));
}

}  // namespace attune::detail
