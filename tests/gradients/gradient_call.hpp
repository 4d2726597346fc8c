#pragma once
#include <attune/runtime.hpp>
#include <attune/workload.hpp>

#include <string_view>
#include <vector>

namespace attune::testing {

/// Elements of f32 or bf16, as many as a shape has.
struct elements {
    elements(std::string_view name, element_type type, std::vector<std::int64_t> shape);
    tensor view();
    float at(std::size_t i) const { return type == element_type::f32 ? reals[i] : static_cast<float>(halves[i]); }
    void put(std::size_t i, float x);

    std::string_view name;
    element_type type;
    std::vector<std::int64_t> shape;
    std::size_t size = 1;
    std::vector<float> reals;
    std::vector<bfloat16> halves;
};

/// A call of a gradient, of what the reference evaluator's forward pass leaves; and what the reference makes of it.
struct gradient_call {
    /// `element`: of q, k, v and the outputs.
    gradient_call(const graph_ir& forward, const graph_ir& of, const support::shape& s, unsigned seed,
                  std::vector<std::int32_t> lengths = {}, element_type element = element_type::f32);
    /// Of a call of the forward pass whose tensors are filled.
    gradient_call(const graph_ir& of, const support::shape& s, support::workload of_forward, unsigned seed,
                  element_type element = element_type::f32);
    gradient_call(const gradient_call&) = delete;

    /// Fills the results with NaN, and calls.
    void run(const kernel_table& kernels, const options& how);
    void run(const kernel_table& kernels, int threads) { run(kernels, {.threads = threads}); }
    /// The largest error, by the largest number of the gradient.
    double error() const;

    graph_ir graph;
    support::workload inputs;
    std::vector<elements> more;  ///< saved outputs and cotangents
    std::vector<detail::named_argument> arguments;
    std::vector<reference::argument> by_reference;
    reference::results expected;
    std::vector<elements> results;

private:
    void forget();
};

/// Numbers of the gradients that are not NaN where the expected ones are, or elsewhere far from them: `allowed`, by the
/// largest number.
std::size_t elements_unlike(const gradient_call& call, const reference::results& expected, double allowed);

}  // namespace attune::testing
