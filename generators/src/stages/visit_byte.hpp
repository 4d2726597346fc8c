#pragma once
#include "passes/skip_blocks.hpp"
#include "plans/kernel_plan.hpp"

namespace attune::generators::inline stages {

/// Which pairs of a block or a sub-block are visible.
enum class block_kind : std::uint8_t {
    empty,    ///< none: it is skipped
    partial,  ///< some pair may be masked
    whole     ///< all
};
inline Halide::Expr number_of(block_kind kind) { return Halide::cast<std::uint8_t>(static_cast<int>(kind)); }

/// What the byte of a block says (docs/decisions/one_byte_for_visits.md): its kind in the lowest bits, and above it the
/// numbers of sub-blocks without a visible pair at the front and at the end. An empty block's byte is 0.
struct visit_byte {
    static constexpr int bits_of_kind = 2, bits_of_count = 3;
    static_assert(block_grid::most_subblocks <= 1 << bits_of_count);  // one of them is visited

    Halide::Expr kind, empty_at_front, empty_at_end;  ///< u8

    Halide::Expr packed() const {
        const auto from_bit = [](int bit) { return Halide::cast<std::uint8_t>(1 << bit); };
        return kind + empty_at_front * from_bit(bits_of_kind) + empty_at_end * from_bit(bits_of_kind + bits_of_count);
    }
    static Halide::Expr kind_of(const Halide::Expr& byte) {
        return byte & Halide::cast<std::uint8_t>((1 << bits_of_kind) - 1);
    }
    static visited_subblocks unpacked(const Halide::Expr& byte, const block_grid& grid) {
        const Halide::Expr counts = Halide::cast<int>(byte) >> bits_of_kind;
        return {counts & ((1 << bits_of_count) - 1), grid.subblocks - (counts >> bits_of_count),
                grid.keys_of_subblock()};
    }
};

}  // namespace attune::generators::inline stages
