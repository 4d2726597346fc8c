#include "index_limits.hpp"

#include "pointwise.hpp"

#include <attune/ir/operations.hpp>

#include <algorithm>

namespace attune::support {
namespace {

constexpr std::int64_t unknown = std::int64_t{1} << 40;  // so large that nobody makes a tensor for it

struct range {
    std::int64_t lowest, highest;
    bool is_known() const { return lowest > -unknown && highest < unknown; }
};
constexpr range anything{-unknown, unknown};

range of_corners(operation op, range x, range y) {
    if (!x.is_known() || !y.is_known()) return anything;
    range all{unknown, -unknown};
    for (const std::int64_t a : {x.lowest, x.highest})
        for (const std::int64_t b : {y.lowest, y.highest}) {
            const std::int64_t value =
                reference::integer_operation(op, static_cast<std::int32_t>(a), static_cast<std::int32_t>(b));
            all = {std::min(all.lowest, value), std::max(all.highest, value)};
        }
    return all;
}

/// Of operations of one, the second is the first again.
using range_of_two = range (*)(operation, range, range);
constexpr range_of_two unknown_of_two = [](operation, range, range) { return anything; };

constexpr by_operation<family::arithmetic, range_of_two> of_arithmetic{
    {operation::negate, unknown_of_two},
    {operation::absolute,
     [](operation, range x, range) {
         return x.is_known() ? range{0, std::max(std::abs(x.lowest), std::abs(x.highest))} : anything;
     }},
    {operation::add, of_corners},
    {operation::subtract, of_corners},
    {operation::multiply, of_corners},
    {operation::divide, [](operation op, range x, range y) { return y.lowest > 0 ? of_corners(op, x, y) : anything; }},
    {operation::remainder, [](operation, range, range y) { return y.lowest > 0 ? range{0, y.highest - 1} : anything; }},
    {operation::minimum,
     [](operation, range x, range y) { return range{std::min(x.lowest, y.lowest), std::min(x.highest, y.highest)}; }},
    {operation::maximum,
     [](operation, range x, range y) { return range{std::max(x.lowest, y.lowest), std::max(x.highest, y.highest)}; }}};

constexpr by_operation<family::bits, range_of_two> of_bits{
    {operation::bit_and,
     [](operation, range x, range y) {
         return y.lowest >= 0 ? range{0, y.highest} : x.lowest >= 0 ? range{0, x.highest} : anything;
     }},
    {operation::bit_or, unknown_of_two},
    {operation::bit_xor, unknown_of_two},
    {operation::shift_left, unknown_of_two},
    {operation::shift_right, of_corners}};

using number_of_call = std::function<std::int64_t(const instruction&)>;
using range_of_terminal = range (*)(const number_of_call&, const instruction&);
constexpr range_of_terminal position = [](const number_of_call& number, const instruction& n) {
    return range{0, std::max<std::int64_t>(number(n), 1) - 1};
};
constexpr range_of_terminal length = [](const number_of_call& number, const instruction& n) {
    return range{number(n), number(n)};
};
constexpr range_of_terminal unknown_terminal = [](const number_of_call&, const instruction&) { return anything; };
constexpr by_operation<family::terminal, range_of_terminal> of_terminals{
    {operation::constant, [](const number_of_call&, const instruction& n) { return range{n.integer, n.integer}; }},
    {operation::q_idx, position},
    {operation::kv_idx, position},
    {operation::b, position},
    {operation::h, position},
    {operation::d_idx, unknown_terminal},
    {operation::bound, unknown_terminal},
    {operation::input, unknown_terminal},
    {operation::scalar, length},
    {operation::kv_lengths, length},
    {operation::depth, length},
    {operation::value_depth, length},
    {operation::query_length, length},
    {operation::key_length, length},
    {operation::heads, length},
    {operation::key_heads, length},
    {operation::batches, length}};

bool leads_to(const graph_ir& graph, std::int16_t from, std::int16_t to) {
    if (from <= to) return from == to;
    const instruction& n = graph.nodes[static_cast<std::size_t>(from)];
    return std::any_of(n.arguments.begin(), n.arguments.begin() + n.argument_count,
                       [&](std::int16_t each) { return leads_to(graph, each, to); });
}

/// What is known of a node.
struct fact {
    range is = anything;  // elements that become indices count as 0
    bool query{}, key{}, reads{};
};

class reader {
public:
    reader(const graph_ir& graph, const number_of_call& number) : graph_(graph), number_(number) {
        limits.reached.resize(graph.inputs.size()), limits.below.resize(graph.inputs.size());
        for (const instruction& n : graph.nodes) {
            fact here;
            for (std::size_t i = n.op == operation::load ? 1 : 0; i < n.argument_count; ++i) {
                const fact& x = of(n, i);
                here.query |= x.query, here.key |= x.key, here.reads |= x.reads;
            }
            here.query |= n.op == operation::q_idx, here.key |= n.op == operation::kv_idx;
            here.reads |= n.op == operation::load && n.kind == kind::integer;
            here.is = range_of(n);
            if (n.op == operation::load && node(n, 0).op == operation::input) read(n);
            facts_.push_back(here);
        }
    }
    index_limits limits;

private:
    const fact& of(const instruction& n, std::size_t i) const {
        return facts_[static_cast<std::size_t>(n.arguments[i])];
    }
    const instruction& node(const instruction& n, std::size_t i) const {
        return graph_.nodes[static_cast<std::size_t>(n.arguments[i])];
    }

    range range_of(const instruction& n) const {
        if (n.kind == kind::condition) return {0, 1};
        if (n.kind != kind::integer) return anything;
        const auto x = [&](std::size_t i) { return of(n, i < n.argument_count ? i : 0).is; };
        switch (family_of(n.op)) {
            case family::terminal: return of_terminals[n.op](number_, n);
            case family::tensors: return n.op == operation::load ? range{0, 0} : range{number_(n), number_(n)};
            case family::arithmetic: return of_arithmetic[n.op](n.op, x(0), x(1));
            case family::bits: return of_bits[n.op](n.op, x(0), x(1));
            case family::selection:
                if (n.op == operation::same) return x(0);
                return {std::min(x(1).lowest, x(2).lowest), std::max(x(1).highest, x(2).highest)};
            case family::sums:
            case family::conversion:
            case family::function:
            case family::function_of_two:
            case family::classification:
            case family::comparison:
            case family::logic:
            case family::random:
            case family::attention:
            case family::recurrent: break;
        }
        return anything;
    }

    void limit(const instruction& load, std::int64_t most) {
        std::int64_t& below = limits.below[static_cast<std::size_t>(node(load, 0).input)];
        below = below == 0 ? most : std::min(below, most);
    }

    void read(const instruction& n) {
        for (std::size_t axis = 0; axis + 1 < n.argument_count; ++axis) {
            const fact& index = of(n, axis + 1);
            if (index.is.is_known() && !(index.query && index.key)) {
                std::int64_t& reached = limits.reached[static_cast<std::size_t>(node(n, 0).input)][axis];
                reached = std::max(reached, index.is.highest + 1);
            }
            if (!index.reads) continue;
            const auto is_read = [&](const instruction& each) {
                return each.op == operation::load && each.kind == kind::integer && node(each, 0).op == operation::input;
            };
            if (const instruction& entry = node(n, axis + 1); is_read(entry)) {  // it may be any place
                instruction places{.op = operation::extent,
                                   .kind = kind::integer,
                                   .argument_count = 1,
                                   .arguments = {n.arguments[0]},
                                   .integer = static_cast<std::int64_t>(axis)};
                limit(entry, number_(places));
                continue;
            }
            for (std::int16_t at = n.arguments[axis + 1]; at >= 0; --at)
                if (const instruction& each = graph_.nodes[static_cast<std::size_t>(at)];
                    is_read(each) && leads_to(graph_, n.arguments[axis + 1], at))
                    limit(each, 1);
        }
    }

    const graph_ir& graph_;
    const number_of_call& number_;
    std::vector<fact> facts_;
};

}  // namespace

index_limits index_limits_of(const graph_ir& graph, const std::function<std::int64_t(const instruction&)>& number) {
    return reader(graph, number).limits;
}

}  // namespace attune::support
