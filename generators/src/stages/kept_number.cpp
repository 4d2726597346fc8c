#include "stages/kept_number.hpp"

namespace attune::generators::inline stages {
using namespace Halide;

kept_number::kept_number(const std::string& name, const quantity& x, const std::vector<Var>& over, const Type& flag)
    : values(name),
      flag_(flag),
      is_condition_(x.value.type().is_bool()),
      may_be_masked_(x.masked.defined()),
      may_be_nothing_(x.nothing.defined()) {
    std::vector<Expr> all{is_condition_ ? cast(flag, x.value) : x.value};
    for (const Expr& holds : {x.masked, x.nothing})
        if (holds.defined()) all.push_back(cast(flag, holds));
    // Algorithm
    values(over) = Tuple(all);
}

quantity kept_number::at(const std::vector<Expr>& place) const {
    const FuncRef kept = values(place);
    const auto holds = [&](int i) { return number_at(kept, i) != cast(flag_, 0); };
    return {is_condition_ ? holds(0) : number_at(kept, 0), may_be_masked_ ? holds(1) : Expr(),
            may_be_nothing_ ? holds(may_be_masked_ ? 2 : 1) : Expr()};
}

}  // namespace attune::generators::inline stages
