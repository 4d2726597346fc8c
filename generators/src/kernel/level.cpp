#include "kernel/level.hpp"

#include <stdexcept>

namespace attune::generators::inline kernel {
namespace {

// The level of the CPU that launches a device's kernels.
#if defined(__aarch64__)
#define ATTUNE_LAUNCHER "arm-64-linux"
constexpr std::string_view launching_level = "aarch64";
#else
#define ATTUNE_LAUNCHER "x86-64-linux-sse41"
constexpr std::string_view launching_level = "x86-64-v2";
#endif

constexpr level table[] = {
    {.name = "x86-64-v4-amx",
     .halide =
         "x86-64-linux-avx-avx2-avx512-avx512_cannonlake-avx512_sapphirerapids-avx512_skylake-avx512_zen4-f16c-fma-"
         "sse41",
     .lanes = 16,
     .registers = 32,
     .bf16_tiles = true,
     .integers = integer_products::of_bytes,
     .widens_bytes = true},
    {.name = "x86-64-v4-bf16",
     .halide = "x86-64-linux-avx-avx2-avx512-avx512_cannonlake-avx512_skylake-avx512_zen4-f16c-fma-sse41",
     .lanes = 16,
     .registers = 32,
     .bf16_dot = true,
     .integers = integer_products::of_bytes,
     .widens_bytes = true},
    {.name = "x86-64-v4",
     .halide = "x86-64-linux-avx-avx2-avx512-avx512_skylake-f16c-fma-sse41",
     .lanes = 16,
     .registers = 32,
     .integers = integer_products::of_words,
     .widens_bytes = true},
    {.name = "x86-64-v3",
     .halide = "x86-64-linux-avx-avx2-f16c-fma-sse41",
     .lanes = 8,
     .registers = 16,
     .integers = integer_products::of_words,
     .widens_bytes = true},
    {.name = "x86-64-v2", .halide = "x86-64-linux-sse41", .lanes = 4, .registers = 16, .widens_bytes = true},
    {.name = "aarch64", .halide = "arm-64-linux", .lanes = 4, .registers = 32},
    {.name = "cuda-sm90a",
     .halide = ATTUNE_LAUNCHER "-cuda-cuda_capability_80",
     .lanes = 1,
     .registers = 0,
     .is_gpu = true,
     .capability = 90,
     .warpgroups = true},
    {.name = "cuda", .halide = ATTUNE_LAUNCHER "-cuda-cuda_capability_80", .lanes = 1, .registers = 0, .is_gpu = true},
    {.name = "opencl", .halide = ATTUNE_LAUNCHER "-opencl-cl_doubles", .lanes = 1, .registers = 0, .is_gpu = true},
    {.name = "vulkan",
     .halide = ATTUNE_LAUNCHER "-vk_float64-vk_int16-vk_int64-vk_int8-vk_v13-vulkan",
     .lanes = 1,
     .registers = 0,
     .is_gpu = true},
};
}  // namespace

std::span<const level> levels() { return table; }

const level& host_of_gpus() { return level_named(launching_level); }

const level& level_named(std::string_view name) {
    std::string known;
    for (const level& each : table) {
        if (each.name == name) return each;
        known += (known.empty() ? "" : ", ") + std::string(each.name);
    }
    throw std::runtime_error("expected a target among " + known + ", got \"" + std::string(name) + "\"");
}

}  // namespace attune::generators::inline kernel
