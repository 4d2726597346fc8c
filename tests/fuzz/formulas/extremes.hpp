#pragma once
#include "formula_case.hpp"

#include <map>
#include <string>

namespace fuzz {

/// The entries of the tables of a graph of beside::extremes: -infinity and NaN, and integers at the ends of i32.
void draw_extremes(attune::support::workload& call, const formula_case& it);
/// Its numbers: two ends of i32, and a limit that is -infinity, NaN or 1.
void add_extremes(std::map<std::string, double>& numbers, unsigned seed);

}  // namespace fuzz
