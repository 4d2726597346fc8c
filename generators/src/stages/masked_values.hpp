#pragma once
#include "stages/subblocks.hpp"

#include <functional>
#include <vector>

namespace attune::generators::inline stages {

/// Whether some numbers, a vector of lanes at a time, are all finite.
struct non_finite {
    /// `value` is a number at `lane`, at `block` and at the variables of a reduction over all of them.
    non_finite(const Halide::Var& lane, int lanes, const std::vector<Halide::Var>& block, const Halide::Expr& value);
    Halide::Func magnitudes{"magnitudes"};  ///< (lane, block): the largest bits but for the sign
    Halide::Func spoilt{"spoilt"};          ///< (block): not 0 if one is not finite
};

/// Keeps the values of masked pairs out of sums. A masked pair has the weight 0: times a number it is 0, but times an
/// infinity or a NaN it is NaN. The values of sub-blocks in which pairs are masked are therefore checked once, for all
/// queries of a task. Only if one of them is not finite, the block's product is made with `unless_masked`. If the
/// request says that inputs are finite, only values beyond the keys in use are checked, and values that a formula
/// makes.
class masked_values {
public:
    /// A value of the block (kb, h, b), at a channel and a key of the block.
    using value_at = std::function<Halide::Expr(const Halide::Expr& channel, const Halide::Expr& key)>;
    masked_values(const kernel_frame& frame, const subblocks& parts, const value_at& value);

    /// Whether the product of the block must look at each pair.
    Halide::Expr matter() const { return found.spoilt(f_.kb, f_.qt, f_.h, f_.b) != Halide::cast<std::uint8_t>(0); }

    /// The value, or 0 if the weight is 0. It is chosen by bits, as arithmetic may assume that there is no NaN.
    static Halide::Expr unless_masked(const Halide::Expr& weight, const Halide::Expr& value);

    // Functions and loops to schedule.
    const int width;  ///< value depths in a vector
    static inline const Halide::Var l{"l"};
    Halide::RDom each;  ///< vectors of a row, keys of a sub-block, sub-blocks
    non_finite found;   ///< of (key block, query block, head, batch)
    clipped_loop scanned_keys() const { return {stage_loop::any_over(found.magnitudes, each.z), keys_, true}; }

private:
    static Halide::RDom scan(const kernel_frame& f, int width, const subblocks& parts);

    const kernel_frame& f_;
    const int keys_;  ///< of a sub-block
};

}  // namespace attune::generators::inline stages
