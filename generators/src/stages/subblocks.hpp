#pragma once
#include "passes/skip_blocks.hpp"
#include "stages/kernel_frame.hpp"

namespace attune::generators::inline stages {

/// What the loop over the keys asks of a block of keys: whether any pair is visible, whether all are, and between which
/// of its sub-blocks the visible keys lie. A block at an edge of what is visible then costs what its sub-blocks there
/// cost.
class subblocks {
public:
    explicit subblocks(const kernel_frame& frame);

    /// (key block, query block, head, batch): 0 empty. Else the lower two bits are 1, or 2 where no pair of the
    /// sub-blocks that are visited is masked; above them stand how many sub-blocks are left out at the front, in three
    /// bits, and how many at the end.
    Halide::Func visits_of_block{"visits_of_block"};
    Halide::Func parts{"parts"};  ///< (sub-block of the keys, query block, head, batch): as kernel_frame::block_kind
                                  ///< says of a block
    Halide::Func parts_of_group{"parts_of_group"};  ///< the same in decode, of all query heads of a key head
    bool may_be_whole{};  ///< else nothing is known of any sub-block without looking at its pairs

    /// Which sub-blocks of a block are visited, by what `visits_of_block` says of it.
    static std::function<visited_subblocks(const Halide::Expr&)> visited_of(const kernel_request& request);

    bool several() const { return count_ > 1; }
    int count() const { return count_; }
    int keys() const { return of_subblocks_.blocks().key_block; }  ///< of a sub-block
    /// Of the block (kb, qt, h, b): whether a pair of one of its sub-blocks may be masked.
    Halide::Expr may_mask(const Halide::Expr& part) const {
        const Halide::Func& kept = several() ? parts : visits_of_block;  // parts of one are no function of their own
        return kept(f_.kb * count_ + part, f_.qt, f_.h, f_.b) != Halide::cast<std::uint8_t>(2);
    }

    /// The lower two bits.
    static Halide::Expr kind_of(const Halide::Expr& visit) { return visit & Halide::cast<std::uint8_t>(3); }

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
