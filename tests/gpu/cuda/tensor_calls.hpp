#pragma once
#include "../../support/workload_values.hpp"
#include "tensor.hpp"
#include "tensor_halves.hpp"

#include <attune/reference.hpp>
#include <attune/runtime/run.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
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
    for (const input_declaration& input : call.graph().inputs)
        if (input.element == element_type::any) call.convert(input.name, element);  // q, k and v
    call.convert("out", element);
}

inline workload call_of(const graph_ir& graph, const shape& of, element_type element,
                        const std::vector<std::int32_t>& lengths = {},
                        const std::optional<spoilt_element>& spoilt = {}) {
    workload call(graph, of, 7, {}, {{"pair", of.depth / 2}});
    for (const input_declaration& input : graph.inputs) {
        if (input.name == "slopes") scale_by(call, "slopes", 0.05f);  // scores of some tens
        if (input.name.ends_with("_codes")) call.draw(input.name, input.name[0] == 'k' ? -100 : 0, 127);
        if (input.name.ends_with("_scale")) scale_by(call, input.name, 0.01f);
        if (input.name == "cosines" || input.name == "sines") scale_by(call, input.name, 0.7f);
    }
    // Half of a row's largest query is halfway between two codes, and may be rounded to either: none is half of 9.
    if (std::ranges::any_of(graph.nodes, [](const instruction& node) { return node.op == operation::largest; }))
        for (std::size_t at = 0; at < call["q"].reals.size(); at += static_cast<std::size_t>(of.depth))
            call["q"].reals[at] = 9;
    if (!lengths.empty()) call.set_lengths(lengths);
    if (spoilt) call[spoilt->input].reals.at(spoilt->at) = spoilt->value;
    convert(call, element);
    return call;
}

/// Half of the last place of an output between 2 and 4, and what the rounding of weights adds to it.
inline double tolerance(element_type element) { return element == element_type::bf16 ? 0.01 : 0.00125; }

/// What the rounding of computed queries, keys and values adds, of which the reference knows nothing.
inline double tolerance(const graph_ir& graph, element_type element) {
    const auto is_formed = [](const instruction& node) {
        return node.op == operation::queries || node.op == operation::keys || node.op == operation::values;
    };
    return (std::ranges::any_of(graph.nodes, is_formed) ? 2 : 1) * tolerance(element);
}

/// Runs a call, by a kernel with this in its name.
inline void compare(const workload& call, const kernel_table& table, element_type element, const char* kernel,
                    const options& how = on_device) {
    const auto expected = call.expected();
    CHECK_THAT(detail::explain(table, call.arguments(), how).kernel, Catch::Matchers::ContainsSubstring(kernel));
    detail::call(table, call.arguments(), how);
    for (const output_declaration& output : call.graph().outputs) {
        INFO(output.name);
        CHECK(call.largest_error(expected, output.name) <
              (output.name == "out" ? tolerance(call.graph(), element) : 3e-5));
    }
    CHECK(support::outputs_untouched(call, true));
}

}  // namespace tensor_calls
