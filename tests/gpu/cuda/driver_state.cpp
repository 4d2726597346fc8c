#include "driver_state.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace stand_in {
namespace {

int number_of_environment(const char* name, int otherwise) {
    const char* const value = std::getenv(name);
    return value ? std::atoi(value) : otherwise;
}

void write_counts(const char* file, const asked_launch& asked, const ptx::counts& made, double seconds) {
    const auto all = [](const ptx::extent& of) { return std::array<unsigned, 3>{of.x, of.y, of.z}; };
    const std::string line =
        ptx::json_line({asked.kernel->name, all(asked.grid), all(asked.block), asked.shared_bytes, seconds}, made);
    if (std::FILE* const to = std::fopen(file, "a")) std::fprintf(to, "%s\n", line.c_str()), std::fclose(to);
}

}  // namespace

driver& its() {
    static driver& one = *new driver;  // Halide tidies up as the program ends
    return one;
}
std::vector<context*>& stack() {
    thread_local std::vector<context*> current;
    return current;
}
const ptx::card& card() {
    static const ptx::card& one = ptx::card_of_environment();
    return one;
}

namespace {

/// What may not be called while a stream is captured: it waits, or is done at once.
constexpr std::array refused_in_capture = {"cuMemAlloc",          "cuMemFree",       "cuMemcpyHtoD",
                                           "cuMemcpyDtoH",        "cuMemcpyDtoD",    "cuModuleLoadData",
                                           "cuStreamSynchronize", "cuCtxSynchronize"};

}  // namespace

int driver::enter(const char* name, bool in_context) {
    seen.calls.emplace_back(name);
    if (!started) return not_initialized;
    if (!captured.empty() && std::ranges::find(refused_in_capture, std::string_view(name)) != refused_in_capture.end())
        return capture_unsupported;
    if (const auto asked = failures.find(name); asked != failures.end()) return asked->second;
    return in_context && stack().empty() ? invalid_context : success;
}

bool driver::holds(std::uint64_t address, std::size_t bytes) const {
    return for_kernels.around(address).holds(address, bytes);
}

int driver::copy(const char* name, void* to, const void* from, std::uint64_t device, std::size_t bytes, void* stream) {
    const std::lock_guard lock(guard);
    if (const int code = enter(name)) return code;
    if (!holds(device, bytes)) return invalid_value;
    if (!stream || from == reinterpret_cast<void*>(device))
        return order(stream, [=] { return std::memcpy(to, from, bytes), success; });
    const auto* const first = static_cast<const std::uint8_t*>(from);  // the caller may change it
    return order(stream, [to, sent = std::vector<std::uint8_t>(first, first + bytes)] {
        return std::memcpy(to, sent.data(), sent.size()), success;
    });
}

int driver::order(void* stream, std::function<int()> work) {
    if (const auto graph = captured.find(stream); graph != captured.end())
        return graph->second.push_back(std::move(work)), success;
    if (stream) return queued[stream].push_back(std::move(work)), success;
    const int before = finish_all();
    return before ? before : work();
}

int driver::finish(void* stream) {
    int first = success;
    for (const auto& each : std::exchange(queued[stream], {}))
        if (const int code = each(); code && !first) first = code;
    queued.erase(stream);
    return first;
}

int driver::finish_all() {
    int first = success;
    while (!queued.empty())
        if (const int code = finish(queued.begin()->first); code && !first) first = code;
    return first;
}

int driver::run(const asked_launch& asked) {
    if (!number_of_environment("PTX_RUN", 1)) return success;
    const char* const file = std::getenv("PTX_COUNT");
    ptx::launch_options how;
    how.grid = asked.grid, how.block = asked.block, how.shared_bytes = asked.shared_bytes;
    how.checks = {number_of_environment("PTX_CHECK", 1) != 0, number_of_environment("PTX_RACES", 0) != 0};
    how.counts = file != nullptr, how.host_threads = number_of_environment("PTX_HOSTS", 0), how.memory = &for_kernels;
    std::vector<void*> arguments;
    for (const auto& each : asked.arguments) arguments.push_back(const_cast<std::uint8_t*>(each.data()));
    try {
        const auto start = std::chrono::steady_clock::now();
        const ptx::counts made = ptx::launch(*asked.kernel, how, arguments);
        if (file)
            write_counts(file, asked, made,
                         std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    } catch (const std::exception& wrong) {
        problem = wrong.what();
        std::fprintf(stderr, "CUDA device in software: %s\n", wrong.what());
        return launch_failed;
    }
    return success;
}

}  // namespace stand_in
