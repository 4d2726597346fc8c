#pragma once
#include <attune/reference.hpp>
#include <attune/runtime.hpp>
#include <attune/runtime/detail/call.hpp>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace attune::testing {

/// A tensor, dense; numbers of 16 bits are rounded when it is made.
struct drawn_tensor {
    element_type element = element_type::f32;
    std::vector<std::int64_t> extents;
    std::size_t query_axis{};  ///< as many as there are axes: none
    std::vector<float> floats;
    std::vector<bfloat16> bf16;
    std::vector<float16> f16;

    tensor view() {
        return element == element_type::bf16  ? tensor(bf16.data(), extents)
               : element == element_type::f16 ? tensor(f16.data(), extents)
                                              : tensor(floats.data(), extents);
    }
    void draw(std::mt19937& random, float lowest, float highest) {
        std::uniform_real_distribution<float> of(lowest, highest);
        for (float& x : floats) x = of(random);
        for (std::size_t n = 0; n < bf16.size(); ++n) bf16[n] = bfloat16(floats[n]);
        for (std::size_t n = 0; n < f16.size(); ++n) f16[n] = float16(floats[n]);
    }
    /// Calls f with each number of one token, of f32.
    template <class F> void of_token(std::int64_t token, F f) {
        std::int64_t inner = 1;
        for (std::size_t axis = query_axis + 1; axis < extents.size(); ++axis) inner *= extents[axis];
        for (std::size_t n = 0; n < floats.size(); ++n)
            if (static_cast<std::int64_t>(n) / inner % extents[query_axis] == token) f(floats[n]);
    }
};

/// A call of a recurrence whose outputs are `out` and `state_out`, of which one may be missing, with tensors that are
/// drawn: logarithms of decays from -0.5 to 0, all else from -1 to 1. Heads share nothing, scalars are 0.5.
struct drawn_call {
    std::int64_t batches, heads, tokens, depth, value_depth;
    const kernel_table& table;
    std::map<std::string, drawn_tensor, std::less<>> tensors{};

    drawn_call(const kernel_table& kernels, std::int64_t of_tokens, std::int64_t of_depth, std::int64_t of_values,
               element_type out = element_type::f32)
        : batches(1), heads(2), tokens(of_tokens), depth(of_depth), value_depth(of_values), table(kernels) {
        std::mt19937 random(1);
        for (const input_declaration& input : table.graph.inputs) {
            if (input.is_scalar) continue;
            std::vector<axis_kind> axes;
            for (int a = 0; a < input.rank; ++a) axes.push_back(input.axes[static_cast<std::size_t>(a)].kind);
            const bool falls = input.name.ends_with("decay");
            add(input.name, axes, input.element).draw(random, falls ? -0.5f : -1.0f, falls ? 0.0f : 1.0f);
        }
        for (const output_declaration& output : table.graph.outputs)
            if (output.name == "out")
                add("out", {axis_kind::batch, axis_kind::head, axis_kind::query, axis_kind::value_depth}, out);
            else
                add("state_out", {axis_kind::batch, axis_kind::head, axis_kind::depth, axis_kind::value_depth});
    }

    drawn_tensor& at(std::string_view name) { return tensors.find(name)->second; }

    std::vector<detail::named_argument> arguments() {
        std::vector<detail::named_argument> all;
        for (auto& [name, each] : tensors) {
            detail::named_argument made;
            made.name = name, made.view = each.view();
            all.push_back(made);
        }
        for (const input_declaration& input : table.graph.inputs) {
            if (!input.is_scalar) continue;
            detail::named_argument made;
            made.name = input.name, made.is = detail::named_argument::form::real, made.real = 0.5;
            all.push_back(made);
        }
        return all;
    }
    void run() { detail::call(table, arguments(), {}); }

    /// The largest error of an output, from the evaluator in double precision on the same numbers.
    double error_of(std::string_view output) {
        std::vector<reference::argument> given;
        for (auto& [name, each] : tensors) given.push_back({name, each.view()});
        const reference::results expected = reference::evaluate(table.graph, given);
        return reference::largest_error(at(output).view(), expected[output], expected.rows);
    }

private:
    drawn_tensor& add(std::string_view name, const std::vector<axis_kind>& axes,
                      element_type element = element_type::f32) {
        drawn_tensor& made = tensors[std::string(name)];
        made.element = element, made.query_axis = axes.size();
        std::size_t count = 1;
        for (std::size_t a = 0; a < axes.size(); ++a) {
            const axis_kind is = axes[a];
            if (is == axis_kind::query) made.query_axis = a;
            made.extents.push_back(is == axis_kind::batch                               ? batches
                                   : is == axis_kind::head || is == axis_kind::key_head ? heads
                                   : is == axis_kind::query                             ? tokens
                                   : is == axis_kind::value_depth                       ? value_depth
                                                                                        : depth);
            count *= static_cast<std::size_t>(made.extents.back());
        }
        made.floats.resize(count);
        if (element == element_type::bf16) made.bf16.resize(count);
        if (element == element_type::f16) made.f16.resize(count);
        return made;
    }
};

}  // namespace attune::testing
