#include "stages/transposed_pairs.hpp"

#include "expr/math.hpp"

#include <utility>

namespace attune::generators::inline stages {
using namespace Halide;

transposed_pairs::transposed_pairs(const kernel_frame& f, int load, place at, const std::vector<Var>& pair,
                                   const std::string& prefix)
    : queries_in_lanes(prefix + "transposed_" + std::to_string(load)),
      rows(prefix + "pairs_" + std::to_string(load)),
      dense(f.inputs.tensor(f.node(f.node(load).arguments[0]).input).dim(0).stride() == 1) {
    at.k = likely(at.k);  // where all keys of a vector exist, they are read as one
    const quantity x = f.evaluate(load, at);
    const bool condition = x.value.type().is_bool();
    std::vector<Var> as_it_lies = pair;
    std::swap(as_it_lies[0], as_it_lies[1]);
    // Algorithm
    rows(as_it_lies) = x.masked.defined() ? or_negative_infinity(!x.masked, x.value)
                       : condition        ? cast<uint8_t>(x.value)
                                          : x.value;
    queries_in_lanes(pair) = rows(as_it_lies);
    const Expr value = queries_in_lanes(pair);
    if (x.masked.defined()) {
        const Expr masked_here = is_negative_infinity(value);
        number = {select(masked_here, 0.0f, value), masked_here};
    } else {
        number = {condition ? value != cast<uint8_t>(0) : value, {}};
    }
}

}  // namespace attune::generators::inline stages
