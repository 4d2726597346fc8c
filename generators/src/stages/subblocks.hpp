#pragma once
#include "passes/skip_blocks.hpp"
#include "stages/kernel_frame.hpp"

namespace attune::generators::inline stages {

/// Answers for the loop over blocks of keys: whether any pair of a block is visible, whether all are, and between which
/// of its sub-blocks the visible keys lie. A block at an edge of the visible keys then costs only its visited
/// sub-blocks.
class subblocks {
public:
    explicit subblocks(const kernel_frame& frame);

    /// (key block, query block, head, batch): a visit_byte. A block is whole if no pair of its visited sub-blocks is
    /// masked.
    Halide::Func visits_of_block{"visits_of_block"};
    Halide::Func parts{"parts"};  ///< (sub-block of the keys, query block, head, batch): its block_kind
    Halide::Func parts_of_group{"parts_of_group"};  ///< the same in decode, of all query heads of a key head
    bool may_be_whole{};                            ///< else only its pairs tell whether a sub-block is whole

    /// The visited sub-blocks of a block, from its `visits_of_block`.
    static std::function<visited_subblocks(const Halide::Expr&)> visited_of(const kernel_request& request);

    bool several() const { return count_ > 1; }
    int count() const { return count_; }
    int keys() const { return of_subblocks_.blocks().key_block; }  ///< of a sub-block
    /// Whether a pair of sub-block `part` of the block (kb, qt, h, b) may be masked.
    Halide::Expr may_mask(const Halide::Expr& part) const {
        const Halide::Func& kept = several() ? parts : visits_of_block;  // a block of one part has no function of parts
        return kept(f_.kb * count_ + part, f_.qt, f_.h, f_.b) != number_of(block_kind::whole);
    }

    /// The request with blocks as long as a sub-block.
    static kernel_request in_subblocks(const kernel_request& request);

private:
    void define_of_group(const verdict& visible, const Halide::Var& part);

    const kernel_frame& f_;
    const int count_;
    const kernel_request of_subblocks_;
    tile_tables tables_;
};

}  // namespace attune::generators::inline stages
