#pragma once
#include "variant_list.hpp"

#include <attune/workload.hpp>

namespace attune::testing {

/// Those of language.hpp.
const std::vector<variant>& language_variants();

/// A call of one of them.
support::workload prepared(const variant& v, const support::shape& s, unsigned seed);

}  // namespace attune::testing
