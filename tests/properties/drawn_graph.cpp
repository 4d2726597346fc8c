#include "drawn_graph.hpp"

#include <attune/dsl/build.hpp>
#include <attune/ir/operations.hpp>
#include <attune/ir/outputs_problem.hpp>
#include <attune/ir/recurrence.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <sstream>
#include <utility>

namespace attune::testing {
namespace {

std::string name_of_node(std::int64_t node) { return std::string("n").append(std::to_string(node)); }

std::string element_text(element_type element) {
    return std::string(element == element_type::any ? "attune::element_type::" : "").append(name_of(element));
}

std::string declaration(const input_declaration& d) {
    for (const input_declaration& given : given_inputs)
        if (d == given) return std::string(d.name);
    std::string text(d.is_scalar ? "scalar<\"" : "input<\"");
    text.append(d.name).append("\", ").append(element_text(d.element)).append(">");
    for (std::size_t axis = 0; axis < d.rank; ++axis) {
        const axis_declaration& a = d.axes[axis];
        text += axis == 0 ? "(" : ", ";
        if (a.kind == axis_kind::free)
            text.append("axis<\"").append(a.name).append("\">");
        else
            text.append(a.name);
    }
    return d.is_scalar ? text : text + ")";
}

std::string constant_text(const instruction& n) {
    std::ostringstream to;
    to.precision(std::numeric_limits<double>::max_digits10);
    if (n.kind == kind::integer)
        to << "constant<attune::kind::integer>{" << n.integer << "}";
    else if (n.number == -std::numeric_limits<double>::infinity())
        to << "-inf";
    else
        to << "constant<attune::kind::real>{" << n.number << "}";
    return to.str();
}

std::string store_text(const store_declaration& s) {
    return fmt::format("store({}, {})", name_of_node(s.element), name_of_node(s.value));
}

/// By the normal form: what a step keeps, writes, erases and reads from before its decay.
std::string recurrence_text(const recurrence_arguments& of) {
    const auto of_row = [](node_id n) { return fmt::format("queries({})", name_of_node(n)); };
    std::string text = fmt::format(
        "recurrence({}, [](auto S) {{ const auto kept = {} * S; return kept + t({}) * ({} - {} * ({} * kept))",
        name_of_node(of.initial), name_of_node(of.decay), of_row(of.key), name_of_node(of.value),
        name_of_node(of.erase), of_row(of.read));
    if (of.has_second_pair()) text += fmt::format(" + t({}) * ({} * S)", of_row(of.second_key), of_row(of.second_read));
    return text + "; })";
}

/// As the language writes it, of nodes that have names.
std::string expression(const drawn_graph& graph, const instruction& n) {
    const operation_row& row = about(n.op);
    const auto argument = [&](std::size_t i) { return name_of_node(n.arguments[i]); };
    if (n.op == operation::constant) return constant_text(n);
    if (n.input >= 0) return declaration(graph.inputs[static_cast<std::size_t>(n.input)]);
    if (n.op == operation::bound)
        return fmt::format("bound_index<\"{}\">", graph.indices[static_cast<std::size_t>(n.integer)]);
    if (n.argument_count == 0) return std::string(row.text);
    if (n.op == operation::recurrence) return recurrence_text(arguments_of(n));
    if (n.op == operation::read_states) return fmt::format("queries({}) * {}", argument(0), argument(1));
    if (row.precedence > 0 && n.op != operation::load)
        return n.argument_count == 1 ? std::string(row.text) + argument(0)
                                     : argument(0) + std::string(row.text) + argument(1);
    std::string text = n.op == operation::load ? argument(0) : std::string(row.text);
    if (n.op == operation::extent) text += fmt::format("<{}>", n.integer);
    if (n.op == operation::from_bits) text += fmt::format("<{}>", name_of(element_in_bits(n)));
    for (std::size_t i = n.op == operation::load ? 1 : 0, first = i; i < n.argument_count; ++i)
        text.append(i == first ? "(" : ", ").append(argument(i));
    return text + ")";
}

}  // namespace

std::string_view lasting(const std::string& name) {
    static std::set<std::string> names;
    return *names.insert(name).first;
}

void drawn_graph::forget_unused() {
    std::vector<bool> used(nodes.size());
    for (const output_declaration& o : outputs) used[static_cast<std::size_t>(o.node)] = true;
    for (const store_declaration& s : stores)
        used[static_cast<std::size_t>(s.element)] = used[static_cast<std::size_t>(s.value)] = true;
    for (std::size_t i = nodes.size(); i-- > 0;)
        for (std::size_t a = 0; used[i] && a < nodes[i].argument_count; ++a)
            used[static_cast<std::size_t>(nodes[i].arguments[a])] = true;

    const auto drawn = std::exchange(nodes, {});
    const auto declared = std::exchange(inputs, {});
    const auto names = std::exchange(indices, {});
    std::vector<node_id> moved(drawn.size());
    const auto kept = [](auto& list, const auto& item) {
        const auto at = std::ranges::find(list, item) - list.begin();
        if (at == std::ssize(list)) list.push_back(item);
        return at;
    };
    for (std::size_t i = 0; i < drawn.size(); ++i) {
        if (!used[i]) continue;
        instruction n = drawn[i];
        for (std::size_t a = 0; a < n.argument_count; ++a)
            n.arguments[a] = moved[static_cast<std::size_t>(n.arguments[a])];
        if (n.input >= 0)
            n.input = static_cast<std::int16_t>(kept(inputs, declared[static_cast<std::size_t>(n.input)]));
        if (n.op == operation::bound) n.integer = kept(indices, names[static_cast<std::size_t>(n.integer)]);
        moved[i] = static_cast<node_id>(kept(nodes, n));
    }
    for (output_declaration& o : outputs) o.node = moved[static_cast<std::size_t>(o.node)];
    for (store_declaration& s : stores)
        s = {moved[static_cast<std::size_t>(s.element)], moved[static_cast<std::size_t>(s.value)]};
}

void drawn_graph::keep_one_core() {
    if (attention_cores(nodes).count() < 2) return;
    const auto weighed = std::ranges::find(nodes, operation::weighted_sum, &instruction::op);
    outputs = {{"out", static_cast<node_id>(weighed - nodes.begin())}};
    forget_unused();
}

bool drawn_graph::precomputes() const {
    return std::ranges::find(nodes, kind::precomputed, &instruction::kind) != nodes.end();
}

std::string drawn_graph::fault() const {
    dsl::detail::ir_builder list;
    if (nodes.size() > list.nodes.size() || inputs.size() > list.inputs.size()) return "too long";
    for (const instruction& n : nodes) {
        if (const std::string_view wrong = fault_of(view(), n); !wrong.empty()) return std::string(wrong);
        list.append(n);
    }
    for (const std::string_view index : indices) list.add_index(index);
    for (const input_declaration& input : inputs) list.add_input(input);
    for (const output_declaration& o : outputs) list.add_output(o.name, o.node);
    for (const store_declaration& s : stores) list.add_store(s.element, s.value);
    dsl::detail::judge(list);
    if (!list.unbound.empty()) return "a bound index outside its sum";
    if (!list.bound_twice.empty()) return "a sum within a sum over the same index";
    if (list.unstorable != dsl::detail::store_fault::none) return "a store of " + std::string(list.fault_name);
    if (list.contractions > 1) return "two products of queries and keys";
    if (outputs_problem_of(nodes, outputs) != outputs_problem::none) return "outputs that one kernel cannot make";
    return {};
}

drawn_graph drawn_graph::made_of(const dsl::detail::ir_builder& list, std::uint64_t fingerprint) {
    drawn_graph made;
    made.nodes.assign(list.nodes.begin(), list.nodes.begin() + list.node_count);
    made.inputs.assign(list.inputs.begin(), list.inputs.begin() + list.input_count);
    made.outputs.assign(list.outputs.begin(), list.outputs.begin() + list.output_count);
    made.indices.assign(list.indices.begin(), list.indices.begin() + list.index_count);
    made.stores.assign(list.stores.begin(), list.stores.begin() + list.store_count);
    made.fingerprint = fingerprint + made.nodes.size();
    return made;
}

dsl::detail::ir_builder drawn_graph::list() const {
    dsl::detail::ir_builder list;
    for (const std::string_view index : indices) list.add_index(index);
    for (const input_declaration& input : inputs) list.add_input(input, lasting(std::string("d").append(input.name)));
    for (const instruction& n : nodes) list.append(n);
    for (const output_declaration& o : outputs) {
        const std::string name(o.name);
        list.add_output(o.name, o.node, lasting(std::string("d").append(name)), lasting(name + "_before"));
    }
    for (const store_declaration& s : stores) list.add_store(s.element, s.value);
    return list;
}

std::string drawn_graph::node_of_input(std::string_view input) const {
    const auto at = std::ranges::find_if(nodes, [&](const instruction& n) {
        return n.op == operation::input && inputs[static_cast<std::size_t>(n.input)].name == input;
    });
    return name_of_node(at - nodes.begin());
}

std::string drawn_graph::text() const {
    std::ostringstream to;
    for (std::size_t i = 0; i < nodes.size(); ++i)
        to << "  " << name_of_node(static_cast<std::int64_t>(i)) << " = " << expression(*this, nodes[i]) << '\n';
    for (const store_declaration& s : stores) to << "  " << store_text(s) << '\n';
    for (const output_declaration& o : outputs) to << "  " << o.name << " = " << name_of_node(o.node) << '\n';
    return to.str();
}

std::string drawn_graph::header(std::string_view name, std::string_view made) const {
    std::ostringstream to;
    to << "#pragma once\n#include <attune/dsl.hpp>\n"
       << (has_recurrences(nodes) ? "#include <attune/dsl/recurrent.hpp>\n" : "") << "\nnamespace fuzzed {\nnamespace "
       << name << "_parts {\nusing namespace attune::dsl;\n";
    for (std::size_t i = 0; i < nodes.size(); ++i)
        to << "inline constexpr auto " << name_of_node(static_cast<std::int64_t>(i)) << " = "
           << expression(*this, nodes[i]) << ";\n";
    to << "inline constexpr auto all = outputs(";
    for (const store_declaration& s : stores) to << store_text(s) << ", ";
    for (const output_declaration& o : outputs)
        to << (&o == outputs.data() ? "" : ", ") << "output<\"" << o.name << "\"> = " << name_of_node(o.node);
    to << ");\ninline constexpr auto made = " << made << ";\n}  // namespace " << name
       << "_parts\ninline constexpr auto " << name << " = " << name << "_parts::made;\n}  // namespace fuzzed\n";
    return to.str();
}

}  // namespace attune::testing
