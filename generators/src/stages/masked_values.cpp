#include "stages/masked_values.hpp"

#include "stages/subblocks.hpp"

#include <numeric>

namespace attune::generators {
using namespace Halide;

masked_values::masked_values(const kernel_frame& frame, const Func& block_kinds, const value_at& value)
    : width(std::gcd(lanes_of(frame.request.schedule), frame.value_depth())), f_(frame) {
    // Algorithm
    const std::vector<Var> block{f_.kb, f_.qt, f_.h, f_.b}, lanes{l, f_.kb, f_.qt, f_.h, f_.b};
    const Expr sign = Expr(0x80000000u), infinity = Expr(0x7f800000u);
    each = RDom({{0, f_.value_depth() / width}, {0, f_.cut.key_block}}, "scanned");
    each.where(subblocks::kind_of(block_kinds(block)) != cast<std::uint8_t>(2));
    magnitudes(lanes) = cast<std::uint32_t>(0);
    magnitudes(lanes) = max(magnitudes(lanes), reinterpret<std::uint32_t>(value(each.x * width + l, each.y)) & ~sign);
    const RDom lane(0, width, "lane");
    spoilt(block) = cast<std::uint8_t>(0);
    spoilt(block) = max(spoilt(block), cast<std::uint8_t>(magnitudes(lane, f_.kb, f_.qt, f_.h, f_.b) >= infinity));
}

Expr masked_values::unless_masked(const Expr& weight, const Expr& value) {
    const Expr nothing = cast<std::uint32_t>(0), bits = reinterpret<std::uint32_t>(weight) << 1;
    return reinterpret<float>(select(bits != nothing, reinterpret<std::uint32_t>(value), nothing));
}

}  // namespace attune::generators
