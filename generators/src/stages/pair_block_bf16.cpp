#include "stages/pair_block.hpp"

#include <algorithm>

/// Blocks of pairs that multiply bf16 two neighbours at a time, both products added to one f32 sum. The neighbours are
/// channels in products of a query and a key, and positions of the other side in sums over these.
namespace attune::generators::inline stages {
using namespace Halide;

void pair_block::define_contraction_in_pairs(int node, const Expr& depth, int of_query, int of_key) {
    const std::string name = std::to_string(node);
    contraction c;
    c.node = node, c.depth = depth, c.in_pairs = true;
    // Algorithm
    c.panel = Func("queries_panel_" + name), c.sums = Func("sums_" + name), c.whole = Func("products_whole_" + name);
    c.channels = RDom({{0, 2}, {0, depth / 2}}, "channels_" + name);
    c.panel(which, f_.qi, in_panel, f_.qt, f_.h, f_.b) = stored(of_query, 2 * in_panel + which, true, f_.qi);
    c.sums(pair_) = 0.0f;
    c.sums(pair_) += cast<float>(c.panel(c.channels.x, f_.qi, c.channels.y, f_.qt, f_.h, f_.b)) *
                     cast<float>(stored(of_key, 2 * c.channels.y + c.channels.x, false, f_.ki));
    enter(c);
}

/// A number of a pair as bf16, half away from zero. NaN stays NaN: its bits are held below those whose carry would
/// reach the sign.
Expr pair_block::rounded(const Expr& number) const {
    const Expr bits = reinterpret<std::uint32_t>(number), sign = bits & Expr(0x80000000u),
               magnitude = min(bits & Expr(0x7fffffffu), Expr(0x7fff7fffu)) + Expr(0x8000u);
    return reinterpret(BFloat(16), cast<std::uint16_t>((magnitude | sign) >> 16));
}

pair_block::pair_of pair_block::rows_in_pairs(const gradient_sum& sum, int width) {
    const bool of_query = !sum.of_queries;
    const Var position = of_query ? f_.qi : f_.ki, block = of_query ? f_.qt : f_.kb;
    const auto read = [this, block](const Func& copy) {
        return [this, block, copy](const Expr& d, const Expr& pair, const Expr& neighbour) {
            return Expr(copy(neighbour, d, pair, block, f_.h, f_.b));
        };
    };
    for (const paired_rows& before : paired)
        if (before.rows == sum.rows && before.of_query == of_query) return read(before.copy);
    const int depth = sum.of_values ? f_.value_depth() : f_.depth(),
              input = f_.node(f_.node(sum.rows).arguments[0]).input;
    // Algorithm
    Func row_pairs("row_pairs_" + std::to_string(sum.rows));
    const Expr element = stored(input, min(f_.d, depth - 1), of_query, 2 * position + which);
    row_pairs(which, f_.d, position, block, f_.h, f_.b) = depth == width
                                                              ? stored(input, f_.d, of_query, 2 * position + which)
                                                              : select(f_.d < depth, element, cast(BFloat(16), 0.0f));
    paired.push_back({row_pairs, sum.rows, width, of_query});
    return read(row_pairs);
}

pair_block::pair_of pair_block::numbers_in_pairs(const gradient_sum& sum) {
    const Func& tile = tiles.at(sum.pairs);
    if (!sum.of_queries)
        return [this, tile](const Expr& own, const Expr& pair, const Expr& neighbour) {
            return Expr(tile(2 * pair + neighbour, own, f_.kb, f_.qt, f_.h, f_.b));
        };
    auto found = std::ranges::find(turned, sum.pairs, &turned_tile::tile);
    if (found == turned.end()) {
        // Algorithm
        Func turned_pairs("turned_" + std::to_string(sum.pairs));
        turned_pairs(which, f_.qi, f_.ki, f_.kb, f_.qt, f_.h, f_.b) =
            tile(f_.qi, 2 * f_.ki + which, f_.kb, f_.qt, f_.h, f_.b);
        found = turned.insert(turned.end(), {turned_pairs, sum.pairs});
    }
    return [this, copy = found->copy](const Expr& own, const Expr& pair, const Expr& neighbour) {
        return Expr(copy(neighbour, own, pair, f_.kb, f_.qt, f_.h, f_.b));
    };
}

}  // namespace attune::generators::inline stages
