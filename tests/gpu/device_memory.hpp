#pragma once
#include <attune/ir/element.hpp>
#include <attune/runtime/tensor.hpp>

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace attune::support {

/// Memory of the first device of a target, opencl or cuda, by the driver's own functions, as an application has it. No
/// header of a driver is needed.
class device_memory {
public:
    explicit device_memory(std::string_view target)
        : cuda_(target == "cuda"), driver_(dlopen(cuda_ ? "libcuda.so.1" : "libOpenCL.so.1", RTLD_LAZY)) {
        if (!driver_) throw std::runtime_error("expected a driver for " + std::string(target) + ", got none");
        if (cuda_) {
            int device = 0;
            check(call<int(unsigned)>("cuInit")(0));
            check(call<int(int*, int)>("cuDeviceGet")(&device, 0));
            check(call<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device));
            check(call<int(void*)>("cuCtxSetCurrent")(context));
            return;
        }
        void *platform{}, *device{};
        std::uint32_t count = 0;
        int code = 0;
        check(call<int(std::uint32_t, void**, std::uint32_t*)>("clGetPlatformIDs")(1, &platform, &count));
        check(call<int(void*, std::uint64_t, std::uint32_t, void**, std::uint32_t*)>("clGetDeviceIDs")(
            platform, 0xffffffffu, 1, &device, &count));
        context = call<void*(const std::intptr_t*, std::uint32_t, void* const*, void*, void*, int*)>("clCreateContext")(
            nullptr, 1, &device, nullptr, nullptr, &code);
        check(code);
        stream = call<void*(void*, void*, std::uint64_t, int*)>("clCreateCommandQueue")(context, device, 0, &code);
        check(code);
    }

    /// A tensor there with these values; without any, of so many zeros.
    template <class T> tensor make(const std::vector<T>& values, const std::vector<std::int64_t>& shape) const {
        const std::size_t bytes = values.size() * sizeof(T);
        if (cuda_) {
            std::uint64_t address = 0;
            check(call<int(std::uint64_t*, std::size_t)>("cuMemAlloc_v2")(&address, bytes));
            check(call<int(std::uint64_t, const void*, std::size_t)>("cuMemcpyHtoD_v2")(address, values.data(), bytes));
            return tensor(element_of<T>, reinterpret_cast<void*>(address), shape).in(memory::cuda);
        }
        int code = 0;
        void* const buffer = call<void*(void*, std::uint64_t, std::size_t, void*, int*)>("clCreateBuffer")(
            context, 1, bytes, nullptr, &code);
        check(code);
        using writing =
            int(void*, void*, std::uint32_t, std::size_t, std::size_t, const void*, std::uint32_t, const void*, void*);
        check(call<writing>("clEnqueueWriteBuffer")(stream, buffer, 1, 0, bytes, values.data(), 0, nullptr, nullptr));
        return tensor(element_of<T>, buffer, shape).in(memory::opencl);
    }
    template <class T> void read(const tensor& from, std::vector<T>& to) const {
        const std::size_t bytes = to.size() * sizeof(T);
        if (cuda_)
            return check(call<int(void*, std::uint64_t, std::size_t)>("cuMemcpyDtoH_v2")(
                to.data(), reinterpret_cast<std::uint64_t>(from.data()), bytes));
        using reading =
            int(void*, void*, std::uint32_t, std::size_t, std::size_t, void*, std::uint32_t, const void*, void*);
        check(call<reading>("clEnqueueReadBuffer")(stream, const_cast<void*>(from.data()), 1, 0, bytes, to.data(), 0,
                                                   nullptr, nullptr));
    }
    /// Until all that was queued is done.
    void wait() const { check(cuda_ ? call<int()>("cuCtxSynchronize")() : call<int(void*)>("clFinish")(stream)); }

    /// For attune::options; no stream is CUDA's default one.
    void *context{}, *stream{};

private:
    template <class Function> Function* call(const char* name) const {
        void* const found = dlsym(driver_, name);
        if (!found) throw std::runtime_error(std::string("expected ") + name + " in the driver, got none");
        return reinterpret_cast<Function*>(found);
    }
    void check(int code) const {
        if (code != 0)
            throw std::runtime_error(std::string(cuda_ ? "CUDA" : "OpenCL") + " says " + std::to_string(code));
    }

    bool cuda_;
    void* driver_;
};

}  // namespace attune::support
