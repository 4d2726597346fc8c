#pragma once
#include <Halide.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace attune::generators::inline expr {

/// Some expressions as one, joined by twos, so that few wait for each other.
template <class Join> Halide::Expr joined(std::vector<Halide::Expr> all, const Join& join) {
    while (all.size() > 1) {
        std::vector<Halide::Expr> half;
        for (std::size_t i = 0; i + 1 < all.size(); i += 2) half.push_back(join(all[i], all[i + 1]));
        if (all.size() % 2 != 0) half.push_back(all.back());
        all = std::move(half);
    }
    return all.front();
}

}  // namespace attune::generators::inline expr
