#pragma once
#include "formula_case.hpp"

#include <functional>
#include <vector>

namespace fuzz {

/// Smaller cases than this one, those that leave out most first: fewer outputs and formulas, the usual schedule, f32,
/// fewer of everything. Always the same list, so that a case is known by its seed and the places of those taken.
std::vector<formula_case> reductions_of(const formula_case& it);

/// Takes reductions as long as one of them still fails. `fails` may say no when it has had enough.
std::vector<std::size_t> shrink(formula_case& it, const std::function<bool(const formula_case&)>& fails);

/// The result of those steps; throws std::invalid_argument for a step that does not exist.
void take(formula_case& it, const std::vector<std::size_t>& steps);

}  // namespace fuzz
