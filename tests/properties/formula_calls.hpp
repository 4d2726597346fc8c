#pragma once
#include <attune/workload.hpp>
#include "../kernels/variant_list.hpp"

#include <string>
#include <vector>

namespace attune::testing {

/// Those of formulas.hpp.
const std::vector<variant>& formulas();
const variant& formula_named(const std::string& name);

/// A call of one of them, its inputs drawn so that their numbers make sense.
class formula_call : public support::workload {
public:
    formula_call(const std::string& name, const support::shape& s, unsigned seed = 21,
                 std::map<std::string, double> numbers = {});

    formula_call& run(int threads = 0);
    /// Every tensor that the other call passes under the same name.
    void take_inputs(formula_call& other);
    /// The elements of an input or output, in order.
    std::vector<float>& reals(std::string_view name) { return (*this)[name].reals; }
    const variant& of() const { return *variant_; }

private:
    const variant* variant_;
};

inline constexpr support::shape usual_formula{
    .batches = 2, .heads = 4, .key_heads = 2, .queries = 77, .keys = 301, .depth = 16, .value_depth = 16};

double largest_difference(const std::vector<float>& x, const std::vector<float>& y);
bool same_bits(const std::vector<float>& x, const std::vector<float>& y);

}  // namespace attune::testing
