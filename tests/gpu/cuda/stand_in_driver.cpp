// A libcuda.so.1 for machines without one: CUDA's driver API, as far as Halide's and attune's runtimes ask for it, over
// a device in software (device/module.hpp). It does what the API promises about contexts, streams, memory, modules and
// errors, refuses what the real one refuses, and writes down what it was asked to do, for tests that ask
// (stand_in_driver.hpp). device/README.md has its environment variables.
#include "device/image.hpp"
#include "driver_state.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace stand_in;

namespace {

void* at(std::uint64_t address) { return reinterpret_cast<void*>(address); }

struct sentence {
    int code;
    const char *name, *text;
};
constexpr sentence words[] = {
    {invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {invalid_image, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"}};
const sentence* said_of(int code) {
    for (const sentence& each : words)
        if (each.code == code) return &each;
    return nullptr;
}

/// CUdevice_attribute, as far as somebody asks.
int attribute(int which) {
    switch (which) {
        case 1: return 1024;  // threads of a block
        case 8: return static_cast<int>(ptx::shared_without_asking);
        case 10: return ptx::lanes;
        case 16: return card().multiprocessors;
        case 75: return card().major;
        case 76: return card().minor;
        case 97: return static_cast<int>(card().shared_bytes);  // of a block, if it asks
        case 100: return 0;  // it copies pageable memory of the host before it returns
        default: return 8;
    }
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return its().started = true, success; }
int cuDriverGetVersion(int* version) { return *version = 12000, success; }
int cuDeviceGetCount(int* count) { return *count = devices, success; }
int cuDeviceGet(int* device, int index) {
    return index < 0 || index >= devices ? invalid_device : (*device = index, success);
}
int cuDeviceGetAttribute(int* value, int which, int) { return *value = attribute(which), success; }
int cuDeviceGetName(char* name, int length, int) {
    std::snprintf(name, static_cast<std::size_t>(length), "CUDA device in software (%.*s)",
                  static_cast<int>(card().name.size()), card().name.data());
    return success;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = std::size_t{8} << 30, success; }
int cuGetErrorName(int code, const char** name) {
    const sentence* const said = said_of(code);
    return *name = said ? said->name : nullptr, said ? success : invalid_value;
}
int cuGetErrorString(int code, const char** text) {
    const sentence* const said = said_of(code);
    const bool known_better = (code == launch_failed || code == invalid_image) && !its().problem.empty();
    return *text = known_better ? its().problem.c_str() : said ? said->text : nullptr, said ? success : invalid_value;
}

int cuCtxCreate_v2(void** made, unsigned, int device) {
    const std::lock_guard lock(its().guard);
    if (const int code = its().enter("cuCtxCreate", false)) return code;
    if (device < 0 || device >= devices) return invalid_device;
    context* const one = &its().made.emplace_back(context{device});
    its().alive.insert(one), stack().push_back(one);
    return ++its().seen.unbalanced, *made = one, success;
}
int cuCtxDestroy_v2(void* of) {
    const std::lock_guard lock(its().guard);
    if (const int code = its().enter("cuCtxDestroy", false)) return code;
    return its().alive.erase(static_cast<context*>(of)) ? success : invalid_context;
}
int cuProfilerStop() { return success; }
int cuCtxGetApiVersion(void*, unsigned* version) { return *version = 3020, success; }
int cuCtxGetDevice(int* device) {
    return stack().empty() ? invalid_context : (*device = stack().back()->device, success);
}
int cuCtxGetCurrent(void** now) { return *now = stack().empty() ? nullptr : stack().back(), success; }
int cuCtxPushCurrent_v2(void* pushed) {
    const std::lock_guard lock(its().guard);
    if (!its().alive.contains(static_cast<context*>(pushed))) return invalid_context;
    stack().push_back(static_cast<context*>(pushed));
    return ++its().seen.unbalanced, success;
}
int cuCtxPopCurrent_v2(void** popped) {
    const std::lock_guard lock(its().guard);
    if (stack().empty()) return invalid_context;
    *popped = stack().back();
    stack().pop_back();
    return --its().seen.unbalanced, success;
}
int cuCtxSetCurrent(void* now) {
    if (stack().empty()) return cuCtxPushCurrent_v2(now);
    return stack().back() = static_cast<context*>(now), success;
}
int cuDevicePrimaryCtxRetain(void** made, int device) {
    const std::lock_guard lock(its().guard);
    if (const int code = its().enter("cuDevicePrimaryCtxRetain", false)) return code;
    if (device < 0 || device >= devices) return invalid_device;
    its().alive.insert(&its().primaries[device]);
    return *made = &its().primaries[device], success;
}
int cuDevicePrimaryCtxRelease_v2(int) { return success; }

int cuModuleLoadData(void** loaded, const void* image) {
    const std::lock_guard lock(its().guard);
    if (const int code = its().enter("cuModuleLoadData")) return code;
    try {
        const std::string text = ptx::text_of_image(image);
        its().modules.push_back({stack().back(), ptx::module(its().rewriting ? its().rewriting(text) : text, card())});
    } catch (const std::exception& wrong) {
        its().problem = wrong.what();
        std::fprintf(stderr, "CUDA device in software: %s\n", wrong.what());
        return invalid_image;
    }
    return *loaded = &its().modules.back(), success;
}
int cuModuleLoadDataEx(void** loaded, const void* image, unsigned, void*,
                       void**) {  // called to limit registers, of which there are enough
    {
        const std::lock_guard lock(its().guard);
        its().seen.calls.emplace_back("cuModuleLoadDataEx");
    }
    return cuModuleLoadData(loaded, image);
}
int cuModuleUnload(void*) { return success; }
int cuModuleGetFunction(void** found, void* in, const char* name) {
    const std::lock_guard lock(its().guard);
    if (const int code = its().enter("cuModuleGetFunction")) return code;
    auto* const m = static_cast<loaded_module*>(in);
    if (m->of != stack().back()) return invalid_context;
    const ptx::program* const kernel = m->kernels.entry(name);
    for (function& known : its().functions)
        if (kernel && known.kernel == kernel) return *found = &known, success;
    return kernel ? (*found = &its().functions.emplace_back(function{m, kernel}), success) : not_found;
}
int cuFuncSetAttribute(void* of, int attribute, int value) {
    const std::lock_guard lock(its().guard);
    if (const int code = its().enter("cuFuncSetAttribute")) return code;
    constexpr int most_dynamic_shared_size = 8;
    if (attribute != most_dynamic_shared_size || value < 0 || static_cast<std::size_t>(value) > card().shared_bytes)
        return invalid_value;
    return static_cast<function*>(of)->most_shared = static_cast<std::size_t>(value), success;
}
int cuLaunchKernel(void* of, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                   unsigned threads_y, unsigned threads_z, unsigned shared, void* stream, void** arguments, void**) {
    const std::lock_guard lock(its().guard);
    if (const int code = its().enter("cuLaunchKernel")) return code;
    const auto& f = *static_cast<function*>(of);
    if (f.in->of != stack().back()) return invalid_context;
    asked_launch asked{f.kernel, {blocks_x, blocks_y, blocks_z}, {threads_x, threads_y, threads_z}, shared, {}};
    if (shared > f.most_shared || asked.block.count() > 1024 || asked.block.count() == 0 || asked.grid.count() == 0)
        return invalid_value;
    launch noted{f.kernel->name,
                 stack().back(),
                 stream,
                 {blocks_x, blocks_y, blocks_z},
                 {threads_x, threads_y, threads_z},
                 shared,
                 {}};
    for (std::size_t n = 0; n < f.kernel->parameters.size(); ++n) {
        const auto* const first = static_cast<const std::uint8_t*>(arguments[n]);
        asked.arguments.emplace_back(first, first + f.kernel->parameters[n].bytes);
        if (f.kernel->parameters[n].bytes != sizeof(std::uint64_t)) continue;
        std::uint64_t address = 0;
        std::memcpy(&address, first, sizeof address);
        noted.arguments.push_back(address);
    }
    its().seen.launches.push_back(std::move(noted));
    return its().order(stream, [asked = std::move(asked)] { return its().run(asked); });
}

int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
    const std::lock_guard lock(its().guard);
    if (const int code = its().enter("cuMemAlloc")) return code;
    constexpr std::size_t aligned = 256;
    void* const made = std::aligned_alloc(aligned, (bytes + aligned - 1) / aligned * aligned + aligned);
    if (!made) return out_of_memory;
    std::memset(made, fresh, bytes);
    *address = reinterpret_cast<std::uint64_t>(made);
    its().memory[*address] = {stack().back(), bytes};
    its().for_kernels.add(*address, bytes);
    return its().seen.allocated_bytes += static_cast<std::int64_t>(bytes), success;
}
int cuMemFree_v2(std::uint64_t address) {
    const std::lock_guard lock(its().guard);
    if (const int code = its().enter("cuMemFree")) return code;
    if (const int code = its().finish_all()) return code;
    const auto freed = its().memory.extract(address);
    if (!freed) return invalid_value;
    its().for_kernels.remove(address);
    its().seen.allocated_bytes -= static_cast<std::int64_t>(freed.mapped().bytes);
    return std::free(at(address)), success;
}
int cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes) {
    return its().copy("cuMemcpyHtoD", at(to), from, to, bytes, nullptr);
}
int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
    return its().copy("cuMemcpyDtoH", to, at(from), from, bytes, nullptr);
}
int cuMemcpyDtoD_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes) {
    return its().copy("cuMemcpyDtoD", at(to), at(from), from, bytes, nullptr);
}
int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, void* stream) {
    return its().copy("cuMemcpyHtoDAsync", at(to), from, to, bytes, stream);
}
int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, void* stream) {
    return its().copy("cuMemcpyDtoHAsync", to, at(from), from, bytes, stream);
}
int cuMemcpyDtoDAsync_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes, void* stream) {
    return its().copy("cuMemcpyDtoDAsync", at(to), at(from), from, bytes, stream);
}
int cuMemcpy3D_v2(const void*) { return its().enter("cuMemcpy3D"), invalid_value; }
int cuPointerGetAttribute(void*, int, std::uint64_t) { return invalid_value; }

int cuStreamCreate(void** made, unsigned) { return *made = new char, success; }
int cuStreamIsCapturing(void* stream, int* captured) {
    const std::lock_guard lock(its().guard);
    return *captured = its().captured.contains(stream) ? 1 : 0, success;
}
/// A stream is captured whatever thread works in it, and no thread may wait meanwhile: the mode is not looked at.
int cuStreamBeginCapture_v2(void* stream, int) {
    const std::lock_guard lock(its().guard);
    return stream && its().captured.emplace(stream, driver::work{}).second ? success : invalid_value;
}
int cuStreamEndCapture(void* stream, void** graph) {
    const std::lock_guard lock(its().guard);
    const auto made = its().captured.extract(stream);
    return made ? (*graph = &its().graphs.emplace_back(made.mapped()), success) : invalid_value;
}
int cuGraphInstantiateWithFlags(void** made, void* graph, unsigned long long) { return *made = graph, success; }
int cuGraphLaunch(void* graph, void* stream) {
    const std::lock_guard lock(its().guard);
    if (const int code = its().enter("cuGraphLaunch")) return code;
    for (const std::function<int()>& each : *static_cast<driver::work*>(graph))
        if (const int code = its().order(stream, each)) return code;
    return success;
}
int cuStreamSynchronize(void* stream) {
    const std::lock_guard lock(its().guard);
    if (const int code = its().enter("cuStreamSynchronize")) return its().queued.erase(stream), code;
    return stream ? its().finish(stream) : its().finish_all();
}
int cuCtxSynchronize() {
    const std::lock_guard lock(its().guard);
    if (const int code = its().enter("cuCtxSynchronize")) return code;
    return its().finish_all();
}

extern const stand_in::controls stand_in_controls;
const stand_in::controls stand_in_controls{
    [] {
        const std::lock_guard lock(its().guard);
        its().seen.calls.clear(), its().seen.launches.clear(), its().failures.clear();
    },
    [] {
        const std::lock_guard lock(its().guard);
        return its().seen;
    },
    [](const char* name, int code) {
        const std::lock_guard lock(its().guard);
        its().failures[name] = code;
    },
    [](int device) { return static_cast<void*>(&its().applications[device]); },
    [](int device) { return static_cast<void*>(&its().primaries[device]); },
    [](std::string (*rewriting)(const std::string&)) {
        const std::lock_guard lock(its().guard);
        its().rewriting = rewriting;
    },
};
}
