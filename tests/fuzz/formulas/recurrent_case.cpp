#include "drawing.hpp"

#include "../../properties/random_recurrence.hpp"

#include <array>

namespace fuzz {
namespace {

using attune::generators::cpu_recurrence;

/// Chunks of any number of tokens that the rules let pass, register tiles that compile in seconds.
cpu_recurrence drawn_chunk(dice& draw, const formula_case& it) {
    constexpr std::array all_lanes{4, 8, 16};
    constexpr std::array tokens{1, 2, 3, 4, 6, 8, 12, 16, 16, 24, 32};
    cpu_recurrence s{};
    s.lanes = draw.one_in(3) ? draw.any(all_lanes) : attune::generators::level_named(it.level).lanes;
    do s.block = draw.any(tokens);
    while (s.block > s.lanes && s.block % s.lanes != 0);
    s.rows = draw.spread(1, 16), s.vectors = draw.from(1, std::max(32 / s.rows, 1));
    s.vectors = std::min(s.vectors, 8);
    check(s, {it.depth, it.value_depth});
    return s;
}

}  // namespace

formula_case drawn_recurrence(unsigned seed) {
    dice draw(seed);
    formula_case it;
    it.seed = seed;
    it.graph = attune::testing::random_recurrence(seed);
    it.level = drawn_level(draw), it.types = "f32";
    constexpr std::array depths{1, 2, 4, 8, 8, 16, 16, 20, 36};
    it.depth = draw.any(depths);
    it.value_depth = draw.one_in(2) ? it.depth : draw.spread(1, 40);
    const cpu_recurrence cut = drawn_chunk(draw, it);
    it.cut = cut;
    attune::support::shape& s = it.shape;
    s.batches = draw.from(1, 3), s.key_heads = draw.from(1, 3), s.heads = s.key_heads * draw.from(1, 3);
    s.queries = draw.one_in(6) ? draw.from(0, 1) : draw.from(1, std::min(3 * cut.block + 3, 70));
    s.keys = 1, s.depth = it.depth, s.value_depth = it.value_depth;
    it.lengths = {{"entry", draw.from(1, 6)}, {"width", 1}};
    it.threads = draw.from(1, 4);
    it.relaid = !draw.one_in(4), it.broadcast = draw.one_in(3);
    if (draw.one_in(3)) draw_packing(draw, it);
    settle(it);
    return it;
}

}  // namespace fuzz
