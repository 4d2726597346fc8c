#include "explain_blocks.hpp"

#include "coverage.hpp"
#include "node_text.hpp"

#include <fmt/format.h>

#include <cmath>
#include <set>

namespace attune::generators {
using namespace Halide;

namespace {

/// Functions that an expression reads, inputs and numbers of the call apart: tables.
class count_tables : public Internal::IRVisitor {
public:
    std::set<std::string> tables;

protected:
    using IRVisitor::visit;
    void visit(const Internal::Call* call) override {
        if (call->call_type == Internal::Call::Halide && !call->name.starts_with("input_") && !call->name.starts_with("most_keys_in_use")) tables.insert(call->name);
        IRVisitor::visit(call);
    }
};

/// The conditions under which a score is visible, one and the other together: of masks, of where(c, s, -inf).
struct visible_where {
    int condition;
    bool negated;  ///< the pair is visible where it does not hold
};

bool is_minus_infinity(const instruction& node) { return node.op == operation::constant && node.is == kind::real && std::isinf(node.number); }

void conditions_of(const listing& graph, int at, bool negated, std::vector<visible_where>& all) {
    const instruction& node = graph.nodes[at];
    if (node.op == (negated ? operation::logical_or : operation::logical_and)) {
        conditions_of(graph, node.arguments[0], negated, all);
        return conditions_of(graph, node.arguments[1], negated, all);
    }
    if (node.op == operation::logical_not) return conditions_of(graph, node.arguments[0], !negated, all);
    all.push_back({at, negated});
}

/// Masks and infinities from the scores down to the contraction; `tensors`: those whose elements may be -infinity.
void collect(const listing& graph, const std::vector<dependence>& depends, int at, std::set<int>& seen, std::vector<visible_where>& conditions, std::set<int>& tensors) {
    if (!seen.insert(at).second) return;
    const instruction& node = graph.nodes[at];
    if (node.op == operation::contract || node.is == kind::condition || node.is == kind::integer || node.is == kind::tensor) return;
    if (node.op == operation::load && depends[at].query && depends[at].key) tensors.insert(graph.nodes[node.arguments[0]].input);
    if (node.op == operation::mask) conditions_of(graph, node.arguments[1], false, conditions);
    if (node.op == operation::where)
        for (const int branch : {1, 2})
            if (is_minus_infinity(graph.nodes[node.arguments[branch]])) conditions_of(graph, node.arguments[0], branch == 1, conditions);
    for (int i = 0; i < node.argument_count; ++i) collect(graph, depends, node.arguments[i], seen, conditions, tensors);
}

/// Tensors that a node reads by query and key together.
void dense_tensors(const listing& graph, const std::vector<dependence>& depends, int at, std::set<std::string>& names) {
    const instruction& node = graph.nodes[at];
    if (node.op == operation::load && depends[at].query && depends[at].key) names.emplace(graph.inputs[graph.nodes[node.arguments[0]].input].name);
    for (int i = 0; i < node.argument_count; ++i) dense_tensors(graph, depends, node.arguments[i], names);
}

std::string joined(const std::set<std::string>& names) {
    return fmt::format("{}", fmt::join(names, ", "));
}

std::string sentence(const block_reason& r, std::size_t tables, const std::set<std::string>& dense) {
    if (!r.skips && !r.unmasked && !dense.empty()) return joined(dense) + (dense.size() > 1 ? " are" : " is") + " read by query and key together: nothing is known of a block before it is visited";
    if (!r.skips && !r.unmasked) return "its values over a block have no bounds that could be computed without looking at pairs";
    std::string text = tables == 0 ? "the indices' ranges over a block decide" : fmt::format("the smallest and largest values of each tile decide, tabulated once a call ({} table{})", tables, tables > 1 ? "s" : "");
    if (!r.skips) text += "; only whether a block is visible throughout";
    if (!r.unmasked) text += "; visited blocks are masked pair by pair";
    return text;
}

}  // namespace

std::vector<block_reason> block_reasons(const kernel_request& request) {
    const listing& graph = request.graph;
    const plan its = plan_of(graph);
    const std::vector<dependence> depends = dependences(graph);
    std::vector<visible_where> conditions;
    std::set<int> seen, tensors;
    collect(graph, depends, its.scores, seen, conditions, tensors);

    std::vector<block_reason> reasons;
    std::set<std::string> said;
    for (const auto& [condition, negated] : conditions) {
        // The same graph with this condition as its only mask, as far as coverage is asked.
        std::vector<instruction> nodes(graph.nodes.begin(), graph.nodes.end());
        const auto add = [&](const instruction& node) {
            nodes.push_back(node);
            return static_cast<std::int16_t>(nodes.size() - 1);
        };
        auto visible = static_cast<std::int16_t>(condition);
        if (negated) visible = add({.op = operation::logical_not, .is = kind::condition, .argument_count = 1, .arguments = {visible}});
        const int masked = add({.op = operation::mask, .is = kind::scores, .argument_count = 2, .arguments = {static_cast<std::int16_t>(its.contraction), visible}});
        kernel_request alone = request;
        alone.graph.nodes = nodes;
        block_reason reason{text_of(alone.graph, visible), {}, {}, {}, {}};
        if (!said.insert(reason.condition).second) continue;

        const std::vector<dependence> its_depends = dependences(alone.graph);
        const kernel_inputs inputs(alone, its);
        tile_tables tables(alone, inputs, its_depends);
        const Var q("q"), k("k"), h("h"), b("b");
        const verdict hidden = coverage(alone, inputs, its_depends, tables, {q, k, h, b}).hidden(masked);
        const Expr all_hidden = Internal::simplify(hidden.must), any_hidden = Internal::simplify(hidden.may);
        reason.skips = !is_const_zero(all_hidden), reason.unmasked = !is_const_one(any_hidden);
        count_tables count;
        all_hidden.accept(&count), any_hidden.accept(&count);
        std::set<std::string> dense;
        dense_tensors(graph, depends, condition, dense);
        reason.how = !reason.skips && !reason.unmasked ? "nothing" : count.tables.empty() ? "intervals" : "tables";
        reason.why = sentence(reason, count.tables.size(), dense);
        reasons.push_back(std::move(reason));
    }
    for (const int tensor : tensors) {
        const element_type element = graph.inputs[tensor].element;
        if (element == element_type::i32 || element == element_type::u8 || element == element_type::boolean) continue;
        const std::string name(graph.inputs[tensor].name);
        reasons.push_back({fmt::format("-infinity in {}", name), false, false, "nothing", name + " is read by query and key together: nothing is known of a block before it is visited"});
    }
    return reasons;
}

}  // namespace attune::generators
