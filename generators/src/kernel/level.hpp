#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace attune::generators::inline kernel {

/// Instructions that multiply integers and add up neighbouring products.
enum class integer_products : std::uint8_t {
    none,
    of_words,  ///< two products of 16 bits, to an i32 (vpmaddwd), or of bytes, one factor without a sign, to an i16
               ///< (vpmaddubsw)
    of_bytes,  ///< four products of bytes, one factor without a sign, to an i32 (vpdpbusd)
};

/// An ISA level, or a kind of GPU, that kernels are compiled for, as `--target` and `attune_add_variant(TARGETS ...)`
/// spell it.
struct level {
    std::string_view name;    ///< "x86-64-v3"
    std::string_view halide;  ///< the target as Halide has it: always explicit, never `host`
    int lanes;                ///< f32 in a vector register
    int registers;            ///< vector registers
    bool bf16_dot{};          ///< has an instruction that multiplies bf16 two at a time and adds both products to f32
    bool bf16_tiles{};        ///< has registers for tiles of bf16, and an instruction that multiplies two tiles
    integer_products integers{};  ///< with which codes are multiplied
    bool widens_bytes{};          ///< loads bytes as integers of 32 bits, a vector of them by one instruction
    bool is_gpu{};                ///< threads take the place of lanes
    int capability{};             ///< of GPUs: ten times the one compute capability that runs it; 0: any
    bool warpgroups{};            ///< four warps make products together (wgmma); it has kernels for nothing else

    /// Whether it is for products of bf16: beside x86-64-v4 it has only kernels with them.
    bool is_for_bf16() const { return bf16_dot || bf16_tiles; }
    /// The name that a call uses: kernels for one capability are chosen among those for all cards.
    std::string_view called() const { return capability != 0 ? name.substr(0, name.find('-')) : name; }
};

/// Every level, most demanding first.
std::span<const level> levels();

/// The least level of CPUs that launch a GPU's kernels.
const level& host_of_gpus();

/// Throws std::runtime_error, which lists the levels, for a name that is not one.
const level& level_named(std::string_view name);

}  // namespace attune::generators::inline kernel
