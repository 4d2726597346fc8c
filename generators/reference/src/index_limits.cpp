#include "index_limits.hpp"

#include <attune/ir/integer_interval.hpp>

#include <algorithm>

namespace attune::support {
namespace {

/// So large that nobody makes a tensor for it.
constexpr std::int64_t enough = std::int64_t{1} << 40;
constexpr integer_interval anything{};

bool is_known(const integer_interval& x) { return x.lowest > -enough && x.highest < enough; }

using number_of_call = std::function<std::int64_t(const instruction&)>;
using interval_of_terminal = integer_interval (*)(const number_of_call&, const instruction&);
constexpr interval_of_terminal position = [](const number_of_call& number, const instruction& n) {
    return integer_interval{0, std::max<std::int64_t>(number(n), 1) - 1};
};
constexpr interval_of_terminal length = [](const number_of_call& number, const instruction& n) {
    return integer_interval::of(number(n));
};
constexpr interval_of_terminal unknown_terminal = [](const number_of_call&, const instruction&) { return anything; };
constexpr by_operation<family::terminal, interval_of_terminal> of_terminals{
    {operation::constant, [](const number_of_call&, const instruction& n) { return integer_interval::of(n.integer); }},
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

bool leads_to(const graph_ir& graph, node_id from, node_id to) {
    if (from <= to) return from == to;
    const instruction& n = graph.nodes[from];
    return std::any_of(n.arguments.begin(), n.arguments.begin() + n.argument_count,
                       [&](node_id each) { return leads_to(graph, each, to); });
}

/// Facts about a node.
struct fact {
    integer_interval is = anything;  // elements that become indices count as 0
    bool query{}, key{}, reads{};
};

class reader {
public:
    reader(const graph_ir& graph, const number_of_call& number)
        : graph_(graph), number_(number), facts_(graph.nodes.size()) {
        limits.reached.resize(graph.inputs.size()), limits.below.resize(graph.inputs.size());
        fold(graph.nodes, facts_, [&](node_id, const instruction& n, const auto& arguments) {
            fact here;
            for (std::size_t i = n.op == operation::load ? 1 : 0; i < n.argument_count; ++i) {
                const fact& x = arguments[i];
                here.query |= x.query, here.key |= x.key, here.reads |= x.reads;
            }
            here.query |= n.op == operation::q_idx, here.key |= n.op == operation::kv_idx;
            here.reads |= n.op == operation::load && n.kind == kind::integer;
            here.is = interval_at(n);
            if (n.op == operation::load && node(n, 0).op == operation::input) read(n);
            return here;
        });
    }
    index_limits limits;

private:
    const fact& of(const instruction& n, std::size_t i) const { return facts_[n.arguments[i]]; }
    const instruction& node(const instruction& n, std::size_t i) const { return graph_.nodes[n.arguments[i]]; }

    integer_interval interval_at(const instruction& n) const {
        if (n.kind == kind::condition) return {0, 1};
        if (n.kind != kind::integer) return anything;
        const auto x = [&](std::size_t i) { return of(n, i < n.argument_count ? i : 0).is; };
        switch (family_of(n.op)) {
            case family::terminal: return of_terminals[n.op](number_, n);
            case family::tensors:
                return n.op == operation::load ? integer_interval{0, 0} : integer_interval::of(number_(n));
            case family::arithmetic:
            case family::bits: {  // integers that wrap around may be any
                const integer_interval made = interval_of(n.op, x(0), x(1));
                return made.fits() ? made : anything;
            }
            case family::selection:
                if (n.op == operation::same) return x(0);
                return joined(x(1), x(2));
            case family::patterns: return interval_of(element_in_bits(n));
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
            if (is_known(index.is) && !(index.query && index.key)) {
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
            for (node_id at = n.arguments[axis + 1]; at >= 0; --at)
                if (const instruction& each = graph_.nodes[at];
                    is_read(each) && leads_to(graph_, n.arguments[axis + 1], at))
                    limit(each, 1);
        }
    }

    const graph_ir& graph_;
    const number_of_call& number_;
    node_map<fact> facts_;
};

}  // namespace

index_limits index_limits_of(const graph_ir& graph, const std::function<std::int64_t(const instruction&)>& number) {
    return reader(graph, number).limits;
}

}  // namespace attune::support
