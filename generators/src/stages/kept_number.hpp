#pragma once
#include "expr/pointwise.hpp"

#include <string>
#include <vector>

namespace attune::generators::inline stages {

/// Truth values as rows keep them. In a GPU's kernels that merge splits or store, rows lie in shared memory beside
/// reals: of bytes there Halide 21 believes that they lie behind the end, and leaves out what reads them.
inline Halide::Type flag_of_rows(const kernel_request& request) {
    return request.on_gpu() ? Halide::Int(32) : Halide::UInt(8);
}

/// A number of the graph that is computed once for all its readers, over some axes. Conditions are kept as flags, by
/// default as bytes; so are the number's mask and whether it is nothing, if it may be.
class kept_number {
public:
    kept_number(const std::string& name, const quantity& x, const std::vector<Halide::Var>& over,
                const Halide::Type& flag = Halide::UInt(8));
    quantity at(const std::vector<Halide::Expr>& place) const;

    Halide::Func values;  ///< to schedule

private:
    Halide::Type flag_;
    bool is_condition_, may_be_masked_, may_be_nothing_;
};

/// Number `i` of those that a function has at a place.
inline Halide::Expr number_at(const Halide::FuncRef& place, int i) {
    return place.size() == 1 ? Halide::Expr(place) : Halide::Expr(place[i]);
}

/// The number with index `which` among some, counted from 0.
inline Halide::Expr one_of(const std::vector<Halide::Expr>& all, const Halide::Expr& which) {
    return all.size() == 1 ? all.front() : Halide::mux(which, all);
}

}  // namespace attune::generators::inline stages
