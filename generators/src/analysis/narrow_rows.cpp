#include "analysis/narrow_rows.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace attune::generators {
namespace {

/// Where an integer lies, at any index and for any tensor.
struct whole_range {
    std::int64_t least{std::numeric_limits<std::int32_t>::min()}, most{std::numeric_limits<std::int32_t>::max()};
    bool within(std::int64_t low, std::int64_t high) const { return low <= least && most <= high; }
};

whole_range range_of_element(element_type element) {
    if (element == element_type::u8) return {0, 255};
    if (element == element_type::i8) return {-128, 127};
    if (element == element_type::i16) return {-32768, 32767};
    return {};
}

/// What does not fit an i32 wraps around, to anything.
whole_range unless_wrapped(std::int64_t least, std::int64_t most) {
    const whole_range made{least, most}, any;
    return made.within(any.least, any.most) ? made : any;
}

using of_two = whole_range (*)(whole_range, whole_range);
constexpr of_two anything = [](whole_range, whole_range) { return whole_range{}; };
constexpr by_operation<family::arithmetic, of_two> of_arithmetic{
    {operation::negate, [](whole_range x, whole_range) { return unless_wrapped(-x.most, -x.least); }},
    {operation::absolute, anything},
    {operation::add, [](whole_range x, whole_range y) { return unless_wrapped(x.least + y.least, x.most + y.most); }},
    {operation::subtract,
     [](whole_range x, whole_range y) { return unless_wrapped(x.least - y.most, x.most - y.least); }},
    {operation::multiply, anything},
    {operation::divide, anything},
    {operation::remainder, anything},
    {operation::minimum,
     [](whole_range x, whole_range y) { return whole_range{std::min(x.least, y.least), std::min(x.most, y.most)}; }},
    {operation::maximum,
     [](whole_range x, whole_range y) { return whole_range{std::max(x.least, y.least), std::max(x.most, y.most)}; }}};
constexpr by_operation<family::bits, of_two> of_bits{
    {operation::bit_and,
     [](whole_range x, whole_range y) {
         return y.least >= 0 ? whole_range{0, y.most} : x.least >= 0 ? whole_range{0, x.most} : whole_range{};
     }},
    {operation::bit_or, anything},
    {operation::bit_xor, anything},
    {operation::shift_left, anything},
    {operation::shift_right, [](whole_range x, whole_range) {
         return whole_range{std::min<std::int64_t>(x.least, 0), std::max<std::int64_t>(x.most, 0)};
     }}};

whole_range range_at(const graph_ir& graph, const instruction& node, const std::vector<whole_range>& of_nodes) {
    const auto of = [&](int i) { return of_nodes[static_cast<std::size_t>(node.arguments[i])]; };
    if (node.kind != kind::integer) return {};
    if (node.op == operation::constant) return {node.integer, node.integer};
    if (node.op == operation::where) return {std::min(of(1).least, of(2).least), std::max(of(1).most, of(2).most)};
    if (node.op == operation::load) {
        const instruction& tensor = graph.nodes[node.arguments[0]];
        return tensor.op == operation::input ? range_of_element(graph.inputs[tensor.input].element) : whole_range{};
    }
    const whole_range last = node.argument_count > 0 ? of(node.argument_count - 1) : whole_range{};
    if (family_of(node.op) == family::arithmetic) return of_arithmetic[node.op](of(0), last);
    if (family_of(node.op) == family::bits) return of_bits[node.op](of(0), last);
    return {};
}

whole_range range_of(const graph_ir& graph, int node) {
    std::vector<whole_range> all;
    for (int n = 0; n <= node; ++n) all.push_back(range_at(graph, graph.nodes[n], all));
    return all.back();
}

bool is_of_8_bits_as_real(const graph_ir& graph, const instruction& node) {
    if (node.op != operation::load || graph.nodes[node.arguments[0]].op != operation::input) return false;
    const element_type element = graph.inputs[graph.nodes[node.arguments[0]].input].element;
    return element == element_type::f8_e4m3 || element == element_type::f8_e5m2;
}

}  // namespace

std::optional<narrow_rows> narrow_rows_of(const graph_ir& graph, const std::vector<dependence>& depends, int tensor) {
    const operation made_by = graph.nodes[tensor].op;
    if (made_by != operation::queries && made_by != operation::keys && made_by != operation::values) return {};
    const auto varies = [&](int n) { return depends[n].channel; };
    narrow_rows found{graph.nodes[tensor].arguments[0], {}};
    for (const instruction* it = &graph.nodes[found.codes]; it->op == operation::multiply;
         it = &graph.nodes[found.codes]) {
        const int left = it->arguments[0], right = it->arguments[1];
        if (varies(left) == varies(right)) return {};
        found.codes = varies(left) ? left : right;
        found.factors.push_back(varies(left) ? right : left);
    }
    const instruction& codes = graph.nodes[found.codes];
    if (!varies(found.codes)) return {};
    if (is_of_8_bits_as_real(graph, codes)) return found;
    if (codes.op != operation::to_real || graph.nodes[codes.arguments[0]].kind != kind::integer) return {};
    found.whole = true;
    found.of_8_bits = range_of(graph, codes.arguments[0]).within(-128, 127);
    return found;
}

bool multiplies_bytes(const graph_ir& graph, const std::vector<dependence>& depends, const plan& core) {
    if (core.contraction < 0) return false;
    const auto queries = narrow_rows_of(graph, depends, core.query), keys = narrow_rows_of(graph, depends, core.key);
    return queries && keys && queries->of_8_bits && keys->of_8_bits;
}

}  // namespace attune::generators
