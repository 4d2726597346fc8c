#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// The notes of the CUDA driver of the device in software (stand_in_driver.cpp), for tests.
namespace stand_in {

struct launch {
    std::string kernel;
    void *context{}, *stream{};
    unsigned blocks[3]{}, threads[3]{}, shared_bytes{};
    std::vector<std::uint64_t> arguments;  ///< those of 8 bytes: addresses
};

struct record {
    std::vector<std::string> calls;  ///< the driver's functions, in order, without those that only ask
    std::vector<launch> launches;
    int unbalanced{};                ///< contexts that are left on the stacks of threads
    std::int64_t allocated_bytes{};  ///< at present
};

/// The controls that a test finds by dlsym.
struct controls {
    void (*clear)();
    record (*so_far)();
    void (*fail)(const char* function, int code);  ///< every call of it from now on, until `clear`
    void* (*context_of)(int device);               ///< a context of an application's, current nowhere
    void* (*primary_of)(int device);
    void (*rewrite)(
        std::string (*)(const std::string& ptx));  ///< what modules become before they are loaded; null: nothing
};
inline constexpr const char* controls_name = "stand_in_controls";
inline constexpr int devices = 2;
inline constexpr unsigned char fresh = 0x3e;  ///< every byte of memory that was allocated and never written

}  // namespace stand_in
