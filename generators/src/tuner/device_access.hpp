#pragma once
#include <attune/runtime/tensor.hpp>
#include "kernel/level.hpp"

#include <memory>
#include <string>

namespace attune::generators::inline tuner {

/// The first GPU of a target, opencl or cuda, by its driver's own functions: the facts that the tuner needs, and memory
/// for tensors of timed calls.
class device_access {
public:
    /// Throws std::runtime_error, a sentence, if there is no driver or no device.
    explicit device_access(const level& target);
    device_access(const device_access&) = delete;

    const std::string& name() const { return name_; }     ///< its own name: "NVIDIA H200"
    int shared_memory() const { return shared_memory_; }  ///< bytes that a block of threads may have

    /// A tensor on the GPU with the elements of a dense tensor in host memory. It lives as long as its memory and this
    /// object.
    struct copy {
        tensor view;
        std::shared_ptr<void> memory;
    };
    copy copy_of(const tensor& host) const;

    /// For attune::options; no stream is CUDA's default one.
    void* context() const { return context_; }
    void* stream() const { return stream_; }

private:
    template <class Function> Function* call(const char* name) const;
    void check(int code, const char* what) const;
    void open_cuda();
    void open_opencl();

    const bool cuda_;
    void *driver_{}, *context_{}, *stream_{};
    std::string name_;
    int shared_memory_{};
};

}  // namespace attune::generators::inline tuner
