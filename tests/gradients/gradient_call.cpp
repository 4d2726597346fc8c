#include "gradient_call.hpp"
#include "../support/workload_values.hpp"

#include <attune/ir/gradient_outputs.hpp>

#include <algorithm>
#include <cmath>
#include <random>

namespace attune::testing {
namespace {

bool is_input_of(const graph_ir& graph, std::string_view name) {
    return std::ranges::any_of(graph.inputs, [&](const auto& d) { return d.name == name; });
}
bool is_output_of(const graph_ir& graph, std::string_view name) {
    return std::ranges::any_of(graph.outputs, [&](const auto& o) { return o.name == name; });
}

support::workload drawn(const graph_ir& forward, const support::shape& s, unsigned seed,
                        std::vector<std::int32_t> lengths, element_type element) {
    support::workload inputs(forward, s, seed,
                             {{"scale", 1 / std::sqrt(static_cast<double>(s.depth))},
                              {"w", 20},
                              {"cap", 3},
                              {"p", 0.25},
                              {"R", 8},
                              {"heads", static_cast<double>(s.heads)},
                              {"limit", 0.75},
                              {"N", static_cast<double>(std::max(s.keys, s.queries))}},
                             {{"rope", 4},
                              {"distance", 17},
                              {"pair", s.depth / 2},
                              {"model", 37},
                              {"in", 37},
                              {"out", 3 * s.heads * s.depth},
                              {"of_a_head", s.depth},
                              {"merged", s.heads * s.value_depth}});
    for (const char* const small : {"slopes", "key_scale", "value_scale"})
        if (is_input_of(forward, small)) scale_by(inputs, small, 0.05f);
    for (const char* const weight : {"proj_weight", "shared_weight", "out_weight"})  // what they project is small, too
        if (is_input_of(forward, weight)) scale_by(inputs, weight, 0.1f);
    if (!lengths.empty()) inputs.set_lengths(std::move(lengths));
    for (const input_declaration& d : forward.inputs)
        if (d.element == element_type::any && element != element_type::f32) inputs.convert(d.name, element);
    return inputs;
}

}  // namespace

elements::elements(std::string_view name, element_type type, std::vector<std::int64_t> shape)
    : name(name), type(type), shape(std::move(shape)) {
    for (const std::int64_t extent : this->shape) size *= static_cast<std::size_t>(extent);
    if (type == element_type::bf16)
        halves.resize(size);
    else
        reals.resize(size);
}
tensor elements::view() {
    const std::span<const std::int64_t> extents(shape);
    return type == element_type::f32 ? tensor(reals.data(), extents) : tensor(halves.data(), extents);
}
void elements::put(std::size_t i, float x) {
    if (type == element_type::f32)
        reals[i] = x;
    else
        halves[i] = bfloat16(x);
}

gradient_call::gradient_call(const graph_ir& forward, const graph_ir& of, const support::shape& s, unsigned seed,
                             std::vector<std::int32_t> lengths, element_type element)
    : gradient_call(of, s, drawn(forward, s, seed, std::move(lengths), element), seed, element) {}

gradient_call::gradient_call(const graph_ir& of, const support::shape& s, support::workload of_forward, unsigned seed,
                             element_type element)
    : graph(of), inputs(std::move(of_forward)) {
    const graph_ir& forward = inputs.graph();
    const reference::results made = inputs.expected();
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (const input_declaration& d : of.inputs) {
        if (is_input_of(forward, d.name)) continue;
        const auto saved = std::ranges::find(made.outputs, std::string(d.name), &reference::array::name);
        std::vector<std::int64_t> extents{s.batches, s.heads, s.queries};
        if (d.rank == 4) extents.push_back(s.value_depth);
        if (d.axes[2].kind == axis_kind::free)  // tokens, or their cotangent
            for (const reference::array& made_of : made.outputs)
                if (d.name == made_of.name || d.name.substr(1) == made_of.name) extents = made_of.shape;
        elements& r = more.emplace_back(d.name, d.rank == 4 ? element : element_type::f32, extents);
        for (std::size_t i = 0; i < r.size; ++i)
            r.put(i, saved == made.outputs.end() ? normal(random) : static_cast<float>(saved->values[i]));
    }
    arguments = inputs.arguments(), by_reference = inputs.reference_arguments();
    std::erase_if(arguments, [&](const auto& a) { return is_output_of(forward, a.name); });
    std::erase_if(by_reference, [&](const auto& a) { return is_output_of(forward, a.name); });
    for (elements& r : more)
        arguments.push_back({.name = r.name, .view = r.view()}), by_reference.push_back({r.name, r.view()});
    expected = reference::evaluate(of, by_reference, {.depth = s.depth, .value_depth = s.value_depth});
    for (std::size_t i = 0; i < of.outputs.size(); ++i)
        results.emplace_back(of.outputs[i].name, has_open_element(of, of.outputs[i]) ? element : element_type::f32,
                             expected.outputs[i].shape);
    for (elements& r : results) arguments.push_back({.name = r.name, .view = r.view()});
    forget();
}

void gradient_call::forget() {
    for (elements& each : results)
        for (std::size_t i = 0; i < each.size; ++i) each.put(i, std::nanf(""));
}

void gradient_call::run(const kernel_table& kernels, const options& how) {
    forget();
    detail::call(kernels, arguments, how);
}

double gradient_call::error() const {
    double worst = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
        double largest = 1, off = 0;
        for (std::size_t j = 0; j < results[i].size; ++j) {
            const double want = expected.outputs[i].values[j], got = static_cast<double>(results[i].at(j));
            largest = std::max(largest, std::abs(want)),
            off = std::max(off, std::isnan(got) ? HUGE_VAL : std::abs(got - want));
        }
        worst = std::max(worst, off / largest);
    }
    return worst;
}

std::size_t elements_unlike(const gradient_call& call, const reference::results& expected, double allowed) {
    std::size_t found = 0;
    for (std::size_t i = 0; i < call.results.size(); ++i) {
        double largest = 1;
        for (const double x : expected.outputs[i].values)
            if (!std::isnan(x)) largest = std::max(largest, std::abs(x));
        for (std::size_t j = 0; j < call.results[i].size; ++j) {
            const double wanted = expected.outputs[i].values[j], is = static_cast<double>(call.results[i].at(j));
            found += !(std::isnan(wanted) ? std::isnan(is) : std::abs(is - wanted) <= allowed * largest);
        }
    }
    return found;
}

}  // namespace attune::testing
