// A libcuda.so.1 for machines without one: it does what CUDA's driver API promises about contexts, streams, memory,
// modules and errors, refuses what the real one refuses, and writes down what it was asked to do. It runs no kernel:
// what a test can see with it is which calls are made, in which order, with what, and what is said when one fails.
#include "stand_in_driver.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>

namespace {

constexpr int success = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3, invalid_device = 101,
              invalid_image = 200, invalid_context = 201, not_found = 500;
constexpr unsigned shared_without_asking = 48u << 10;

struct context {
    int device;
};
struct module {
    context* of;
    std::string ptx;
};
struct function {
    module* in;
    std::string name;
    std::vector<int> argument_bytes;
    unsigned most_shared = shared_without_asking;
};
struct block {
    context* of;
    std::size_t bytes;
};

struct driver {
    std::mutex guard;
    bool started = false;
    context primaries[stand_in::devices] = {{0}, {1}}, applications[stand_in::devices] = {{0}, {1}};
    std::set<context*> alive = {&applications[0], &applications[1]};  // a primary one only once it was retained
    std::map<std::uint64_t, block> memory;
    std::vector<module*> modules;
    std::vector<function*> functions;
    std::map<void*, std::vector<std::function<void()>>> queued;  // copies of a stream, done when somebody waits for it
    std::map<std::string, int> failures;
    stand_in::record seen;
};
driver& its() {
    static driver one;
    return one;
}
thread_local std::vector<context*> stack;

/// One call of a function that counts: its place in the record, and the failure that a test asked for.
int enter(const char* name, bool in_context = true) {
    driver& d = its();
    d.seen.calls.emplace_back(name);
    if (!d.started) return not_initialized;
    if (const auto asked = d.failures.find(name); asked != d.failures.end()) return asked->second;
    return in_context && stack.empty() ? invalid_context : success;
}

int bytes_of(std::string_view type) {
    return type == "u64" || type == "b64" || type == "s64" || type == "f64" ? 8
           : type == "u16" || type == "b16"                                 ? 2
           : type == "u8" || type == "b8"                                   ? 1
                                                                            : 4;
}

/// The sizes of a kernel's parameters: `.param .u64 .ptr .align 1 name` between the brackets of its entry.
bool read_entry(const std::string& ptx, const std::string& name, std::vector<int>& sizes) {
    const std::size_t entry = ptx.find(".entry " + name + "(");
    if (entry == std::string::npos) return false;
    const std::string list = ptx.substr(entry, ptx.find(')', entry) - entry);
    for (std::size_t at = 0; (at = list.find(".param .", at)) != std::string::npos;) {
        at += 8;
        sizes.push_back(bytes_of(std::string_view(list).substr(at, list.find(' ', at) - at)));
    }
    return true;
}

bool is_allocated(std::uint64_t address, std::size_t bytes) {
    const auto after = its().memory.upper_bound(address);
    if (after == its().memory.begin()) return false;
    const auto& [start, b] = *std::prev(after);
    return address + bytes <= start + b.bytes;
}

void* at(std::uint64_t address) { return reinterpret_cast<void*>(address); }

int copy(const char* name, void* to, const void* from, std::uint64_t device, std::size_t bytes, void* stream) {
    const std::lock_guard lock(its().guard);
    if (const int code = enter(name)) return code;
    if (!is_allocated(device, bytes)) return invalid_value;
    if (stream && to != at(device))
        its().queued[stream].emplace_back(
            [=] { std::memcpy(to, from, bytes); });  // as into pinned memory: when the stream gets to it
    else
        std::memcpy(to, from, bytes);
    return success;
}

const std::pair<int, std::pair<const char*, const char*>> words[] = {
    {invalid_value, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
    {out_of_memory, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
    {invalid_context, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
    {700, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}}};

}  // namespace

extern "C" {

int cuInit(unsigned) { return its().started = true, success; }
int cuDeviceGetCount(int* count) { return *count = stand_in::devices, success; }
int cuDeviceGet(int* device, int index) {
    return index < 0 || index >= stand_in::devices ? invalid_device : (*device = index, success);
}
int cuDeviceGetAttribute(int* value, int, int) { return *value = 8, success; }
int cuDeviceGetName(char* name, int length, int) {
    return std::strncpy(name, "stand-in", static_cast<std::size_t>(length)), success;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = std::size_t{1} << 30, success; }
int cuGetErrorName(int code, const char** name) {
    for (const auto& [known, said] : words)
        if (known == code) return *name = said.first, success;
    return *name = nullptr, invalid_value;
}
int cuGetErrorString(int code, const char** text) {
    for (const auto& [known, said] : words)
        if (known == code) return *text = said.second, success;
    return *text = nullptr, invalid_value;
}

// Nobody is to make or end contexts here.
int cuCtxCreate_v2(void**, unsigned, int) { return enter("cuCtxCreate", false), invalid_value; }
int cuCtxDestroy_v2(void*) { return enter("cuCtxDestroy", false), invalid_value; }
int cuProfilerStop() { return success; }
int cuCtxGetApiVersion(void*, unsigned* version) { return *version = 3020, success; }
int cuCtxGetDevice(int* device) { return stack.empty() ? invalid_context : (*device = stack.back()->device, success); }
int cuCtxGetCurrent(void** now) { return *now = stack.empty() ? nullptr : stack.back(), success; }
int cuCtxPushCurrent_v2(void* pushed) {
    const std::lock_guard lock(its().guard);
    if (!its().alive.contains(static_cast<context*>(pushed))) return invalid_context;
    stack.push_back(static_cast<context*>(pushed));
    return ++its().seen.unbalanced, success;
}
int cuCtxPopCurrent_v2(void** popped) {
    const std::lock_guard lock(its().guard);
    if (stack.empty()) return invalid_context;
    *popped = stack.back();
    stack.pop_back();
    return --its().seen.unbalanced, success;
}
int cuDevicePrimaryCtxRetain(void** made, int device) {
    const std::lock_guard lock(its().guard);
    if (const int code = enter("cuDevicePrimaryCtxRetain", false)) return code;
    if (device < 0 || device >= stand_in::devices) return invalid_device;
    its().alive.insert(&its().primaries[device]);
    return *made = &its().primaries[device], success;
}

int cuModuleLoadData(void** loaded, const void* image) {
    const std::lock_guard lock(its().guard);
    if (const int code = enter("cuModuleLoadData")) return code;
    const std::string ptx(static_cast<const char*>(image));
    if (ptx.find(".target sm_") == std::string::npos) return invalid_image;
    its().modules.push_back(new module{stack.back(), ptx});
    return *loaded = its().modules.back(), success;
}
int cuModuleLoadDataEx(void**, const void*, unsigned, void*, void**) {
    return enter("cuModuleLoadDataEx"), invalid_value;
}  // it is called to limit registers
int cuModuleUnload(void*) { return success; }
int cuModuleGetFunction(void** found, void* in, const char* name) {
    const std::lock_guard lock(its().guard);
    if (const int code = enter("cuModuleGetFunction")) return code;
    auto* const m = static_cast<module*>(in);
    if (m->of != stack.back()) return invalid_context;
    for (function* known : its().functions)
        if (known->in == m && known->name == name) return *found = known, success;
    auto* const made = new function{m, name, {}};
    if (!read_entry(m->ptx, name, made->argument_bytes)) return delete made, not_found;
    its().functions.push_back(made);
    return *found = made, success;
}
int cuFuncSetAttribute(void* of, int attribute, int value) {
    const std::lock_guard lock(its().guard);
    if (const int code = enter("cuFuncSetAttribute")) return code;
    if (attribute != 8 || value < 0 || value > 227 << 10)
        return invalid_value;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, of the largest device
    return static_cast<function*>(of)->most_shared = static_cast<unsigned>(value), success;
}
int cuLaunchKernel(void* of, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                   unsigned threads_y, unsigned threads_z, unsigned shared, void* stream, void** arguments, void**) {
    const std::lock_guard lock(its().guard);
    if (const int code = enter("cuLaunchKernel")) return code;
    const auto& f = *static_cast<function*>(of);
    if (f.in->of != stack.back()) return invalid_context;
    if (shared > f.most_shared || threads_x * threads_y * threads_z > 1024 || blocks_x * blocks_y * blocks_z == 0)
        return invalid_value;
    stand_in::launch made{
        f.name, stack.back(), stream, {blocks_x, blocks_y, blocks_z}, {threads_x, threads_y, threads_z}, shared, {}};
    for (std::size_t i = 0; i < f.argument_bytes.size(); ++i)
        if (f.argument_bytes[i] == 8) made.arguments.push_back(*static_cast<std::uint64_t*>(arguments[i]));
    its().seen.launches.push_back(std::move(made));
    return success;
}

int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
    const std::lock_guard lock(its().guard);
    if (const int code = enter("cuMemAlloc")) return code;
    void* const made = std::malloc(bytes);
    std::memset(made, stand_in::fresh, bytes);
    *address = reinterpret_cast<std::uint64_t>(made);
    its().memory[*address] = {stack.back(), bytes};
    return its().seen.allocated_bytes += static_cast<std::int64_t>(bytes), success;
}
int cuMemFree_v2(std::uint64_t address) {
    const std::lock_guard lock(its().guard);
    if (const int code = enter("cuMemFree")) return code;
    const auto freed = its().memory.extract(address);
    if (!freed) return invalid_value;
    its().seen.allocated_bytes -= static_cast<std::int64_t>(freed.mapped().bytes);
    return std::free(at(address)), success;
}
int cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes) {
    return copy("cuMemcpyHtoD", at(to), from, to, bytes, nullptr);
}
int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
    return copy("cuMemcpyDtoH", to, at(from), from, bytes, nullptr);
}
int cuMemcpyDtoD_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes) {
    return copy("cuMemcpyDtoD", at(to), at(from), from, bytes, nullptr);
}
int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, void* stream) {
    return copy("cuMemcpyHtoDAsync", at(to), from, to, bytes, stream);
}
int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, void* stream) {
    return copy("cuMemcpyDtoHAsync", to, at(from), from, bytes, stream);
}
int cuMemcpyDtoDAsync_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes, void* stream) {
    return copy("cuMemcpyDtoDAsync", at(to), at(from), from, bytes, stream);
}
int cuMemcpy3D_v2(const void*) { return enter("cuMemcpy3D"), invalid_value; }
int cuPointerGetAttribute(void*, int, std::uint64_t) { return invalid_value; }

int cuStreamSynchronize(void* stream) {
    const std::lock_guard lock(its().guard);
    if (const int code = enter("cuStreamSynchronize")) return code;
    for (const auto& each : its().queued[stream]) each();
    return its().queued.erase(stream), success;
}
int cuCtxSynchronize() { return enter("cuCtxSynchronize"); }

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
};
}
