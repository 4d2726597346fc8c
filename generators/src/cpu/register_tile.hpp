#pragma once
#include <Halide.h>

namespace attune::generators::inline cpu {

/// A tile of sums of products that stays in registers: one axis in lanes, every vector of the tile written out.
struct register_tile {
    Halide::Var lane, other;
    int vector;

    Halide::Stage write_out(Halide::Stage sums) const {
        return sums.vectorize(lane, vector).unroll(lane).unroll(other);
    }
    /// Adds one product at a time to all sums. With two axes, the first one counts two neighbours of bf16, whose
    /// products are added at once.
    Halide::Stage add(Halide::Stage sums, const Halide::RDom& products) const {
        if (products.dimensions() == 2)
            sums.reorder(products.x, lane, other, products.y).atomic().vectorize(products.x);
        else
            sums.reorder(lane, other, products.x);
        return write_out(sums);
    }
    /// The loop over the products.
    static const Halide::RVar& loop(const Halide::RDom& products) {
        return products.dimensions() == 2 ? products.y : products.x;
    }
};

}  // namespace attune::generators::inline cpu
