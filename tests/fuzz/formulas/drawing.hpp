#pragma once
#include "formula_case.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>
#include <string>

/// How cases are drawn, whatever they are of.
namespace fuzz {

class dice {
public:
    explicit dice(unsigned seed) : random_(seed * 2654435761u + 17) {}
    int from(int first, int last) { return std::uniform_int_distribution<int>(first, last)(random_); }
    bool one_in(int n) { return from(1, n) == 1; }
    /// Small numbers as often as large ones.
    int spread(int first, int last) {
        const double low = std::log(first), high = std::log(last + 1);
        return std::clamp(static_cast<int>(std::exp(low + (high - low) * from(0, 1000) / 1000.0)), first, last);
    }
    template <class List> auto any(const List& list) {
        return list[static_cast<std::size_t>(from(0, static_cast<int>(std::size(list)) - 1))];
    }

private:
    std::mt19937 random_;
};

/// One that this machine runs, its best one in half of the cases.
std::string drawn_level(dice& draw);

/// Packed queries, where the graph is about one sequence at a time.
void draw_packing(dice& draw, formula_case& it);

}  // namespace fuzz
