#pragma once
#include <attune/runtime/detail/c_variant.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/error.hpp>

#include <attune/ir/gradient_outputs.hpp>
#include <attune/ir/own_axes.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// A variant as an operator of another system: its parameters in order, and its results.
namespace attune::detail {

/// An argument: its declaration, and how it is read.
struct parameter {
    std::string name;
    enum class form { tensor, optional_tensor, integer, real } is{};
    std::vector<axis_kind> axes{};
    bool any_type{};
};

struct result {
    std::string name;
    std::vector<axis_kind> axes{};
    bool any_type{};
    int like = -1;  ///< of a gradient: the parameter whose axes and element type it has
};

/// What is known of a variant, found once.
struct operation {
    const attune_variant* variant;
    std::string name, qualified;
    std::vector<parameter> parameters;  ///< q, k and v first, as in all systems; kv_lengths last
    std::vector<result> results;

    explicit operation(const attune_variant* given) : variant(given) {
        const kernel_table& table = given->table();
        check_version(table);
        qualified = table.variant;
        name = qualified.substr(qualified.rfind(':') + 1);
        if (!table.graph.stores.empty())
            throw error(
                "attune: expected a variant that leaves its inputs as they are, as operators of PyTorch and "
                "functions of JAX do, got " +
                qualified + ", which stores to them; try its calls from C++, C or NumPy");
        for (std::size_t each = 0; each <= std::size(first); ++each)
            for (const input_declaration& d : table.graph.inputs)
                if (place(d.name) == each) parameters.push_back(parameter_of(d));
        parameters.push_back({"kv_lengths", parameter::form::optional_tensor, {axis_kind::batch}});
        for (const output_declaration& d : table.graph.outputs) {
            const instruction& of = table.graph.nodes[d.node];
            result made{std::string(d.name), {}, has_open_element(table.graph, d)};
            if (const int input = input_of_gradient(table.graph, d); input >= 0) {
                const auto named = [&](const parameter& p) {
                    return p.name == table.graph.inputs[static_cast<std::size_t>(input)].name;
                };
                const auto found = std::find_if(parameters.begin(), parameters.end(), named);
                made.like = static_cast<int>(found - parameters.begin()), made.axes = found->axes;
            } else {
                const auto axes = axes_of_output(of);
                made.axes.assign(axes.begin(), axes.end());
            }
            results.push_back(std::move(made));
        }
    }

private:
    static constexpr std::string_view first[] = {"q", "k", "v"};
    /// Among the first; behind them for all others.
    static std::size_t place(std::string_view name) {
        return static_cast<std::size_t>(std::find(std::begin(first), std::end(first), name) - std::begin(first));
    }

    static parameter parameter_of(const input_declaration& d) {
        parameter made{std::string(d.name), parameter::form::tensor, {}, d.element == element_type::any};
        if (d.is_scalar) made.is = d.element == element_type::i32 ? parameter::form::integer : parameter::form::real;
        for (std::size_t axis = 0; axis < d.rank; ++axis) made.axes.push_back(d.axes[axis].kind);
        return made;
    }
};

}  // namespace attune::detail
