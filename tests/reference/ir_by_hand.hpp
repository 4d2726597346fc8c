#pragma once
#include <attune/ir/graph_ir.hpp>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <vector>

namespace attune::testing {

/// Writes graphs by hand, so that the evaluator is tested without the language that usually writes them. Functions
/// return node positions.
class ir_builder {
public:
    node_id add(operation op, kind is, std::initializer_list<node_id> arguments = {}) {
        instruction n{.op = op, .kind = is, .argument_count = static_cast<std::uint8_t>(arguments.size())};
        std::size_t i = 0;
        for (node_id a : arguments) n.arguments[i++] = a;
        nodes_.push_back(n);
        return static_cast<node_id>(nodes_.size() - 1);
    }
    node_id integer(std::int64_t value) {
        const node_id n = add(operation::constant, kind::integer);
        nodes_.back().integer = value;
        return n;
    }
    node_id real(double value) {
        const node_id n = add(operation::constant, kind::real);
        nodes_.back().number = value;
        return n;
    }
    node_id index(operation op) { return add(op, kind::integer); }
    node_id bound(std::string_view name) {
        const auto at = std::ranges::find(indices_, name) - indices_.begin();
        if (at == std::ssize(indices_)) indices_.push_back(name);
        const node_id n = add(operation::bound, kind::integer);
        nodes_.back().integer = at;
        return n;
    }
    node_id extent(node_id tensor, int axis) {
        const node_id n = add(operation::extent, kind::integer, {tensor});
        nodes_.back().integer = axis;
        return n;
    }
    node_id input(std::string_view name, element_type element, std::initializer_list<axis_kind> axes) {
        input_declaration d{
            .name = name, .element = element, .is_scalar = false, .rank = static_cast<std::uint8_t>(axes.size())};
        std::size_t i = 0;
        for (axis_kind a : axes) d.axes[i++] = {a, name_of(a)};
        return declare(d, operation::input, kind::tensor);
    }
    node_id scalar(std::string_view name, element_type element) {
        return declare({.name = name, .element = element, .is_scalar = true, .rank = 0}, operation::scalar,
                       element == element_type::f32 ? kind::real : kind::integer);
    }
    node_id scores() {  // q * t(k)
        using enum axis_kind;
        const node_id q = input("q", element_type::any, {batch, head, query, axis_kind::depth});
        const node_id k = input("k", element_type::any, {batch, key_head, key, axis_kind::depth});
        return add(operation::contract, kind::scores, {q, add(operation::transpose, kind::transposed, {k})});
    }
    node_id attend(node_id scores) {  // softmax(scores) * v
        using enum axis_kind;
        const node_id weights = add(operation::softmax, kind::weights, {scores});
        return add(operation::weighted_sum, kind::output,
                   {weights, input("v", element_type::any, {batch, key_head, key, axis_kind::value_depth})});
    }
    void output(std::string_view name, node_id node) { outputs_.push_back({name, node}); }

    graph_ir view() const { return {nodes_, inputs_, outputs_, "by hand", 0, indices_}; }

private:
    node_id declare(const input_declaration& d, operation op, kind is) {
        inputs_.push_back(d);
        const node_id n = add(op, is);
        nodes_.back().input = static_cast<std::int16_t>(inputs_.size() - 1);
        return n;
    }

    std::vector<instruction> nodes_;
    std::vector<input_declaration> inputs_;
    std::vector<output_declaration> outputs_;
    std::vector<std::string_view> indices_;
};

}  // namespace attune::testing
