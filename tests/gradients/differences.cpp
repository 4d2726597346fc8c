#include "differences.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace attune::testing {
namespace {

/// An array's elements as f32, and the tensor that shows them.
struct kept_tensor {
    std::string name;
    std::vector<float> elements;
    std::vector<std::int64_t> shape;
    reference::argument argument() const {
        return {name, tensor(elements.data(), std::span<const std::int64_t>(shape))};
    }
};

/// The loss sum(cotangent * output), over what is finite.
double loss_of(const reference::results& made, const std::vector<kept_tensor>& cotangents) {
    double loss = 0;
    for (const kept_tensor& each : cotangents) {
        const reference::array& output = made[each.name.substr(1)];
        for (std::size_t i = 0; i < output.values.size(); ++i)
            if (std::isfinite(output.values[i])) loss += static_cast<double>(each.elements[i]) * output.values[i];
    }
    return loss;
}

void round_inputs(const graph_ir& graph, support::workload& call) {
    for (const input_declaration& d : graph.inputs) {
        if (d.is_scalar || (d.element != element_type::f32 && d.element != element_type::any)) continue;
        auto* const elements = static_cast<float*>(call[d.name].view.mutable_data());
        support::for_each_offset(call.view(d.name), [&](std::int64_t at) {
            if (std::isfinite(elements[at])) elements[at] = std::round(elements[at] * 4096) / 4096;
        });
    }
}

}  // namespace

std::vector<differentiated> derivatives_along(const graph_ir& forward, const graph_ir& gradient,
                                              support::workload& call, unsigned seed, double step,
                                              const reference::options& options) {
    std::mt19937 random(seed);
    round_inputs(forward, call);
    const reference::results made = call.expected();
    // The gradient's inputs beside those of the forward pass: its outputs, and their cotangents.
    std::vector<kept_tensor> saved, cotangents;
    const auto is_input = [&](std::string_view name) {
        return std::ranges::any_of(forward.inputs, [&](const input_declaration& d) { return d.name == name; });
    };
    for (const input_declaration& d : gradient.inputs) {
        if (is_input(d.name)) continue;
        const auto output = std::ranges::find(made.outputs, std::string(d.name), &reference::array::name);
        const bool is_saved = output != made.outputs.end();
        const reference::array& like = is_saved ? *output : made[std::string(d.name).substr(1)];
        kept_tensor t{std::string(d.name), std::vector<float>(like.values.size()), like.shape};
        std::normal_distribution<float> normal;
        for (std::size_t i = 0; i < t.elements.size(); ++i)
            t.elements[i] = is_saved ? static_cast<float>(like.values[i]) : normal(random);
        (is_saved ? saved : cotangents).push_back(std::move(t));
    }
    std::vector<reference::argument> arguments = call.reference_arguments();
    std::erase_if(arguments, [&](const reference::argument& a) {
        return std::ranges::any_of(forward.outputs, [&](const output_declaration& o) { return o.name == a.name; });
    });
    for (const auto* list : {&saved, &cotangents})
        for (const kept_tensor& each : *list) arguments.push_back(each.argument());
    const reference::results gradients = reference::evaluate(gradient, arguments, options);

    std::vector<differentiated> all;
    for (const reference::array& of : gradients.outputs) {
        const std::string name = of.name.substr(1);
        auto* const elements = static_cast<float*>(call[name].view.mutable_data());
        std::vector<std::int64_t> offsets;
        support::for_each_offset(call.view(name), [&](std::int64_t at) { offsets.push_back(at); });
        if (offsets.size() != of.values.size()) continue;  // it broadcasts
        std::vector<float> direction(offsets.size());
        for (float& x : direction) x = random() % 2 == 0 ? 1.0f : -1.0f;
        differentiated d{name};
        for (std::size_t i = 0; i < direction.size(); ++i)
            d.by_gradient += static_cast<double>(direction[i]) * of.values[i], d.size += std::abs(of.values[i]);
        const auto moved = [&](double distance) {
            const auto move = [&](double by) {
                for (std::size_t i = 0; i < direction.size(); ++i)
                    elements[offsets[i]] += static_cast<float>(by) * direction[i];
            };
            move(distance);
            const double loss = loss_of(call.expected(), cotangents);
            move(-distance);
            return loss;
        };
        const auto slope = [&](double h) { return (moved(h) - moved(-h)) / (2 * h); };
        const double far = slope(step), middle = slope(step / 2), near = slope(step / 4);
        d.by_differences = (4 * near - middle) / 3;
        const double before = (4 * middle - far) / 3;
        if (std::abs(before - d.by_differences) > 1e-5 * (d.size + 1)) continue;  // a kink
        all.push_back(d);
    }
    return all;
}

}  // namespace attune::testing
