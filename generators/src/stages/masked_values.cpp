#include "stages/masked_values.hpp"

#include <cstdint>
#include <numeric>

namespace attune::generators::inline stages {
using namespace Halide;

non_finite::non_finite(const Var& lane, int lanes, const std::vector<Var>& block, const Expr& value) {
    // Algorithm
    std::vector<Var> in_lanes = block;
    in_lanes.insert(in_lanes.begin(), lane);
    const Expr sign = Expr(0x80000000u), infinity = Expr(0x7f800000u);
    magnitudes(in_lanes) = cast<std::uint32_t>(0);
    magnitudes(in_lanes) = max(magnitudes(in_lanes), reinterpret<std::uint32_t>(value) & ~sign);
    const RDom each_lane(0, lanes, "each_lane");
    std::vector<Expr> at(in_lanes.begin(), in_lanes.end());
    at.front() = each_lane;
    spoilt(block) = cast<std::uint8_t>(0);
    spoilt(block) = max(spoilt(block), cast<std::uint8_t>(magnitudes(at) >= infinity));
}

masked_values::masked_values(const kernel_frame& frame, const subblocks& parts, const value_at& value)
    : width(std::gcd(lanes_of(frame.request.schedule), frame.value_depth())),
      each(scan(frame, width, parts)),
      found(l, width, {frame.kb, frame.qt, frame.h, frame.b},
            value(each.x * width + l, each.z * parts.keys() + each.y)),
      f_(frame),
      keys_(parts.keys()) {}

RDom masked_values::scan(const kernel_frame& f, int width, const subblocks& parts) {
    RDom scanned({{0, f.value_depth() / width}, {0, parts.keys()}, {0, parts.count()}}, "scanned");
    const Expr behind = f.kb * f.cut.key_block + (scanned.z + 1) * parts.keys();
    // Tests the sign's bit: from a comparison Halide would shorten the loop.
    const Expr not_in_use = reinterpret<std::uint32_t>(f.inputs.keys_in_use(f.b) - behind) >> 31 != 0;
    scanned.where(f.keys().values->check == value_check::behind_last_key ? not_in_use : parts.may_mask(scanned.z));
    return scanned;
}

Expr masked_values::unless_masked(const Expr& weight, const Expr& value) {
    const Expr nothing = cast<std::uint32_t>(0), bits = reinterpret<std::uint32_t>(weight) << 1;
    return reinterpret<float>(select(bits != nothing, reinterpret<std::uint32_t>(value), nothing));
}

}  // namespace attune::generators::inline stages
