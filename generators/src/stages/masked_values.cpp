#include "stages/masked_values.hpp"

#include "stages/subblocks.hpp"

#include <numeric>

namespace attune::generators {
using namespace Halide;

masked_values::masked_values(const kernel_frame& frame, const Func& block_kinds, const value_at& value)
    : f_(frame), vector_(std::gcd(frame.lanes(), frame.value_depth())) {
    // Algorithm
    const std::vector<Var> block{f_.kb, f_.qt, f_.h, f_.b}, lanes{l_, f_.kb, f_.qt, f_.h, f_.b};
    const Expr sign = Expr(0x80000000u), infinity = Expr(0x7f800000u);
    each_ = RDom({{0, f_.value_depth() / vector_}, {0, f_.cut.key_block}}, "scanned");
    each_.where(subblocks::kind_of(block_kinds(block)) != cast<std::uint8_t>(2));
    magnitudes_(lanes) = cast<std::uint32_t>(0);
    magnitudes_(lanes) =
        max(magnitudes_(lanes), reinterpret<std::uint32_t>(value(each_.x * vector_ + l_, each_.y)) & ~sign);
    const RDom lane(0, vector_, "lane");
    spoilt_(block) = cast<std::uint8_t>(0);
    spoilt_(block) = max(spoilt_(block), cast<std::uint8_t>(magnitudes_(lane, f_.kb, f_.qt, f_.h, f_.b) >= infinity));
}

Expr masked_values::unless_masked(const Expr& weight, const Expr& value) {
    const Expr nothing = cast<std::uint32_t>(0), bits = reinterpret<std::uint32_t>(weight) << 1;
    return reinterpret<float>(select(bits != nothing, reinterpret<std::uint32_t>(value), nothing));
}

void masked_values::schedule(const LoopLevel& block) {
    // Schedule
    magnitudes_.compute_at(block).bound_extent(l_, vector_).vectorize(l_, vector_);
    magnitudes_.update()
        .reorder(l_, each_.x, each_.y)
        .vectorize(l_, vector_)
        .never_partition(std::vector<VarOrRVar>{each_.y});
    spoilt_.compute_at(block);
}

}  // namespace attune::generators
