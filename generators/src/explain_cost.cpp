#include "explain_cost.hpp"

#include "node_text.hpp"
#include "plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace attune::generators {
namespace {

/// One size: its letter and its value.
struct size {
    std::string letter;
    double value;
};

size size_of(axis_kind axis, std::string_view name, const depth_pair& depths, const call_sizes& call) {
    switch (axis) {
        case axis_kind::batch: return {"B", call.batches};
        case axis_kind::head: return {"H", call.heads};
        case axis_kind::key_head: return {"Hk", call.key_heads};
        case axis_kind::query: return {"Lq", call.queries};
        case axis_kind::key: return {"Lk", call.keys};
        case axis_kind::position: return {"max(Lq, Lk)", std::max(call.queries, call.keys)};
        case axis_kind::depth: return {"D", static_cast<double>(depths.depth)};
        case axis_kind::value_depth: return {"Dv", static_cast<double>(depths.value_depth)};
        case axis_kind::free: break;
    }
    return {std::string(name), 1};
}

cost product(int factor, const std::vector<size>& sizes) {
    cost c{std::to_string(factor), static_cast<double>(factor)};
    for (const size& s : sizes) c.formula += " " + s.letter, c.value *= s.value;
    return c;
}

void add(cost& to, const cost& more) {
    to.formula += (to.formula.empty() ? "" : " + ") + more.formula;
    to.value += more.value;
}

}  // namespace

call_sizes call_sizes_from(const std::string& text) {
    long long b = 0, h = 0, hk = 0, lq = 0, lk = 0;
    int used = 0;
    const auto whole = [&] { return used == static_cast<int>(text.size()) && b > 0 && h > 0 && hk > 0 && lq >= 0 && lk >= 0; };
    if (std::sscanf(text.c_str(), "%lldx%lld:%lldx%lldx%lld%n", &b, &h, &hk, &lq, &lk, &used) == 5 && whole()) return {double(b), double(h), double(hk), double(lq), double(lk)};
    used = 0;
    if (std::sscanf(text.c_str(), "%lldx%lldx%lldx%lld%n", &b, &h, &lq, &lk, &used) == 4 && (hk = h, whole())) return {double(b), double(h), double(h), double(lq), double(lk)};
    throw std::runtime_error("expected a shape as batch x heads x queries x keys, such as 1x8x2048x2048, or 1x8:2x2048x2048 with 2 key heads, got \"" + text + "\"");
}

cost flops_of(const listing& graph, const depth_pair& depths, int hidden_rows, const call_sizes& call) {
    const auto count = [&](operation op) { return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const instruction& node) { return node.op == op; })); };
    const std::vector<size> pairs{{"B", call.batches}, {"H", call.heads}, {"Lq", call.queries}, {"Lk", call.keys}};
    cost total;
    const auto contracted_over = [&](int times, const size& channels) {
        if (times == 0) return;
        std::vector<size> sizes = pairs;
        sizes.push_back(channels);
        add(total, product(2 * times, sizes));
    };
    contracted_over(count(operation::contract) * (hidden_rows > 0 ? 2 : 1), {"D", static_cast<double>(depths.depth)});  // scores are made again for what the second pass writes
    for (const further_contraction& other : plan_of(graph).further) contracted_over(1, {text_of(graph, other.extent), 1});
    contracted_over(std::min(count(operation::weighted_sum), 1), {"Dv", static_cast<double>(depths.value_depth)});
    return total.formula.empty() ? cost{std::string(1, '0'), 0} : total;
}

cost bytes_of_input(const input_declaration& input, element_type of_any, const depth_pair& depths, const call_sizes& call) {
    std::vector<size> sizes;
    for (int axis = 0; axis < input.rank; ++axis) sizes.push_back(size_of(input.axes[axis].is, input.axes[axis].name, depths, call));
    return product(bytes_of(input.element == element_type::any ? of_any : input.element), sizes);
}

std::vector<std::string> axes_of_output(kind output) {
    switch (output) {
        case kind::output: return {"batch", "head", "query", "value_depth"};
        case kind::row: return {"batch", "head", "query"};
        case kind::column: return {"batch", "head", "key"};
        case kind::head_mean: return {"batch", "query", "key"};
        case kind::tokens: return {"batch", "query", "channel"};
        default: return {"batch", "head", "query", "key"};
    }
}

cost bytes_of_output(kind output, element_type of_output, const depth_pair& depths, const call_sizes& call) {
    std::vector<size> sizes;
    for (const std::string& axis : axes_of_output(output)) {
        const axis_kind is = axis == "batch" ? axis_kind::batch : axis == "head" ? axis_kind::head : axis == "query" ? axis_kind::query : axis == "key" ? axis_kind::key : axis == "value_depth" ? axis_kind::value_depth : axis_kind::free;
        sizes.push_back(size_of(is, axis, depths, call));
    }
    return product(output == kind::output ? bytes_of(of_output) : 4, sizes);
}

cost bytes_of_hidden_rows(int hidden_rows, const call_sizes& call) {
    if (hidden_rows == 0) return {"0", 0};
    return product(4 * hidden_rows, {{"B", call.batches}, {"H", call.heads}, {"Lq", call.queries}});
}

}  // namespace attune::generators
