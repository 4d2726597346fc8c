#include "tuner/device_access.hpp"

#include "base/formatting.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

namespace attune::generators::inline tuner {
namespace {

void* driver_of(bool cuda) { return dlopen(cuda ? "libcuda.so.1" : "libOpenCL.so.1", RTLD_LAZY); }

std::size_t bytes_of_all(const tensor& t) {
    std::size_t bytes = static_cast<std::size_t>(bytes_of(t.type()));
    for (const std::int64_t extent : t.shape()) bytes *= static_cast<std::size_t>(extent);
    return bytes;
}

}  // namespace

template <class Function> Function* device_access::call(const char* name) const {
    void* const found = dlsym(driver_, name);
    if (!found)
        throw std::runtime_error(
            fmt::format("expected {} in the driver of {}, got none", name, cuda_ ? "CUDA" : "OpenCL"));
    return reinterpret_cast<Function*>(found);
}

void device_access::check(int code, const char* what) const {
    if (code != 0)
        throw std::runtime_error(fmt::format("expected {} of {}, got error {}", what, cuda_ ? "CUDA" : "OpenCL", code));
}

device_access::device_access(const level& target) : cuda_(target.called() == "cuda"), driver_(driver_of(cuda_)) {
    if (!cuda_ && target.name != "opencl")
        throw std::runtime_error(fmt::format(
            "expected a GPU's target that schedules are searched for, cuda or opencl, got {}; try --targets opencl",
            target.name));
    if (!driver_)
        throw std::runtime_error(fmt::format(
            "expected a device that runs {} kernels, got none: lacks {}; try tune on a machine that has one",
            target.name, cuda_ ? "libcuda.so.1, NVIDIA's driver" : "libOpenCL.so.1, OpenCL's loader"));
    cuda_ ? open_cuda() : open_opencl();
}

void device_access::open_cuda() {
    int devices = 0, device = 0;
    if (call<int(unsigned)>("cuInit")(0) != 0 || call<int(int*)>("cuDeviceGetCount")(&devices) != 0 || devices == 0)
        throw std::runtime_error(
            "expected a device that runs cuda kernels, got a driver that knows of none; try tune on a machine that has "
            "one");
    constexpr int shared_memory_that_is_asked_for = 97;  // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    std::array<char, 256> name{};
    check(call<int(int*, int)>("cuDeviceGet")(&device, 0), "a device");
    check(call<int(char*, int, int)>("cuDeviceGetName")(name.data(), static_cast<int>(name.size()) - 1, device),
          "the name of a device");
    check(call<int(int*, int, int)>("cuDeviceGetAttribute")(&shared_memory_, shared_memory_that_is_asked_for, device),
          "the shared memory of a device");
    check(call<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context_, device), "a context");
    check(call<int(void*)>("cuCtxPushCurrent_v2")(context_), "a context");
    name_ = name.data();
}

void device_access::open_opencl() {
    // The first of the first platform that has one, as attune::run takes it.
    std::array<void*, 16> platforms{};
    std::uint32_t count = 0;
    constexpr std::uint64_t any = 0xffffffffu;
    void* device = nullptr;
    if (call<int(std::uint32_t, void**, std::uint32_t*)>("clGetPlatformIDs")(platforms.size(), platforms.data(),
                                                                             &count) != 0)
        count = 0;
    for (std::uint32_t p = 0; p < count && p < platforms.size() && !device; ++p) {
        void* first = nullptr;
        std::uint32_t here = 0;
        if (call<int(void*, std::uint64_t, std::uint32_t, void**, std::uint32_t*)>("clGetDeviceIDs")(
                platforms[p], any, 1, &first, &here) == 0 &&
            here > 0)
            device = first;
    }
    if (!device)
        throw std::runtime_error(
            "expected a device that runs opencl kernels, got none: lacks an OpenCL driver (PoCL's is the package "
            "pocl-opencl-icd); try tune on a machine that has one");
    constexpr std::uint32_t device_name = 0x102b, local_memory = 0x1023;  // CL_DEVICE_NAME, CL_DEVICE_LOCAL_MEM_SIZE
    using asking = int(void*, std::uint32_t, std::size_t, void*, std::size_t*);
    std::array<char, 256> name{};
    std::uint64_t bytes = 0;
    check(call<asking>("clGetDeviceInfo")(device, device_name, name.size() - 1, name.data(), nullptr),
          "the name of a device");
    check(call<asking>("clGetDeviceInfo")(device, local_memory, sizeof bytes, &bytes, nullptr),
          "the shared memory of a device");
    name_ = name.data(), shared_memory_ = static_cast<int>(std::min<std::uint64_t>(bytes, 1u << 30));
    int code = 0;
    using context_maker = void*(const std::intptr_t*, std::uint32_t, void* const*, void*, void*, int*);
    context_ = call<context_maker>("clCreateContext")(nullptr, 1, &device, nullptr, nullptr, &code);
    check(code, "a context");
    stream_ = call<void*(void*, void*, std::uint64_t, int*)>("clCreateCommandQueue")(context_, device, 0, &code);
    check(code, "a command queue");
}

device_access::copy device_access::copy_of(const tensor& host) const {
    const std::size_t bytes = bytes_of_all(host);
    const std::vector<std::int64_t> shape(host.shape().begin(), host.shape().end());
    if (cuda_) {
        std::uint64_t address = 0;
        check(call<int(std::uint64_t*, std::size_t)>("cuMemAlloc_v2")(&address, bytes), "memory");
        std::shared_ptr<void> taken(reinterpret_cast<void*>(address),
                                    [release = call<int(std::uint64_t)>("cuMemFree_v2")](void* at) {
                                        release(reinterpret_cast<std::uintptr_t>(at));
                                    });
        check(call<int(std::uint64_t, const void*, std::size_t)>("cuMemcpyHtoD_v2")(address, host.data(), bytes),
              "a copy");
        return {tensor(host.type(), taken.get(), shape).in(memory::cuda), std::move(taken)};
    }
    int code = 0;
    constexpr std::uint64_t read_and_written = 1;
    std::shared_ptr<void> buffer(call<void*(void*, std::uint64_t, std::size_t, void*, int*)>("clCreateBuffer")(
                                     context_, read_and_written, bytes, nullptr, &code),
                                 [release = call<int(void*)>("clReleaseMemObject")](void* at) {
                                     if (at) release(at);
                                 });
    check(code, "memory");
    using writing =
        int(void*, void*, std::uint32_t, std::size_t, std::size_t, const void*, std::uint32_t, const void*, void*);
    check(call<writing>("clEnqueueWriteBuffer")(stream_, buffer.get(), 1, 0, bytes, host.data(), 0, nullptr, nullptr),
          "a copy");
    return {tensor(host.type(), buffer.get(), shape).in(memory::opencl), std::move(buffer)};
}

}  // namespace attune::generators::inline tuner
