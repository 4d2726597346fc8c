#pragma once
#include "device/module.hpp"
#include "stand_in_driver.hpp"

#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

/// The state of the driver of the device in software between calls, and the work in its streams.
namespace stand_in {

/// CUresult
enum result : int {
    success = 0,
    invalid_value = 1,
    out_of_memory = 2,
    not_initialized = 3,
    invalid_device = 101,
    invalid_image = 200,
    invalid_context = 201,
    not_found = 500,
    illegal_address = 700,
    launch_failed = 719,
    capture_unsupported = 900,
};

struct context {
    int device;
};
struct loaded_module {
    context* of;
    ptx::module kernels;
};
struct function {
    loaded_module* in;
    const ptx::program* kernel;
    std::size_t most_shared = ptx::shared_without_asking;
};
struct allocation {
    context* of;
    std::size_t bytes;
};

/// A launch that was asked for: its arguments are copies.
struct asked_launch {
    const ptx::program* kernel;
    ptx::extent grid, block;
    std::size_t shared_bytes;
    std::vector<std::vector<std::uint8_t>> arguments;
};

/// Work of streams waits until somebody waits for it, as far as a program can tell from a device that is slow. Work of
/// no stream is done at once, after what is waiting.
struct driver {
    std::mutex guard;
    bool started = false;
    context primaries[devices] = {{0}, {1}}, applications[devices] = {{0}, {1}};
    std::set<context*> alive = {&applications[0], &applications[1]};  ///< a primary one only once it was retained
    std::list<context> made;                                          ///< by cuCtxCreate
    std::map<std::uint64_t, allocation> memory;
    ptx::allocations for_kernels;
    std::list<loaded_module> modules;
    std::list<function> functions;
    using work = std::vector<std::function<int()>>;
    std::map<void*, work> queued, captured;  ///< by streams; captured: of those that a graph is made of
    std::list<work> graphs;
    std::map<std::string, int> failures;
    record seen;
    std::string (*rewriting)(const std::string& ptx) = nullptr;
    std::string problem;  ///< the last fault of a kernel, or what was wrong with a module

    /// One call of a function that counts: its place in the record, and the failure that a test asked for.
    int enter(const char* name, bool in_context = true);
    bool holds(std::uint64_t address, std::size_t bytes) const;
    int copy(const char* name, void* to, const void* from, std::uint64_t device, std::size_t bytes, void* stream);
    /// Does a piece of work, now or in its stream.
    int order(void* stream, std::function<int()> work);
    int finish(void* stream);
    int finish_all();
    int run(const asked_launch& asked);
};

/// The process's one.
driver& its();
/// The current contexts of this thread.
std::vector<context*>& stack();
const ptx::card& card();

}  // namespace stand_in
