#pragma once
#include "../../support/workload_values.hpp"
#include "tensor.hpp"
#include "tensor_halves.hpp"

#include <attune/reference.hpp>
#include <attune/runtime/run.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// Calls of kernels whose products tensor cores make, beside the reference in double precision on the rounded inputs.
namespace tensor_calls {

using namespace attune;
using support::scale_by;
using support::shape;
using support::workload;

inline const options on_device{.target = "cuda"};

/// An element of an input that is replaced.
struct spoilt_element {
    const char* input;
    std::size_t at;
    float value;
};

inline void convert(workload& call, element_type element) {
    for (const char* name : {"q", "k", "v", "out"}) call.convert(name, element);
}

inline workload call_of(const graph_ir& graph, const shape& of, element_type element,
                        const std::vector<std::int32_t>& lengths = {},
                        const std::optional<spoilt_element>& spoilt = {}) {
    workload call(graph, of, 7);
    for (const input_declaration& input : graph.inputs)
        if (input.name == "slopes") scale_by(call, "slopes", 0.05f);  // scores of some tens
    if (!lengths.empty()) call.set_lengths(lengths);
    if (spoilt) call[spoilt->input].reals.at(spoilt->at) = spoilt->value;
    convert(call, element);
    return call;
}

/// Half of the last place of an output between 2 and 4, and what the rounding of weights adds to it.
inline double tolerance(element_type element) { return element == element_type::bf16 ? 0.01 : 0.00125; }

/// Runs a call, by a kernel with this in its name.
inline void compare(const workload& call, const kernel_table& table, element_type element, const char* kernel,
                    const options& how = on_device) {
    const auto expected = call.expected();
    CHECK_THAT(detail::explain(table, call.arguments(), how).kernel, Catch::Matchers::ContainsSubstring(kernel));
    detail::call(table, call.arguments(), how);
    for (const output_declaration& output : call.graph().outputs) {
        INFO(output.name);
        CHECK(call.largest_error(expected, output.name) < (output.name == "out" ? tolerance(element) : 3e-5));
    }
    CHECK(support::outputs_untouched(call, true));
}

}  // namespace tensor_calls
