#include "inspect/index_warnings.hpp"

#include "analysis/plan.hpp"
#include "base/formatting.hpp"
#include "inspect/node_text.hpp"

#include <algorithm>

namespace attune::generators::inline inspect {
namespace {

/// Bounds of an integer by its formula, whatever the call: it is not below 0, and something other than a position keeps
/// it from growing.
struct kept {
    bool from_below{}, from_above{};
    bool length{};  ///< a number of places, of which there is one at least
    bool query{}, key{}, read{};
};

constexpr kept from_0{true, false}, within{true, true}, places{true, true, true}, passed{false, true}, unknown{};
constexpr by_operation<family::terminal, kept> of_terminals{
    {operation::constant, passed},  // of which the sign is known
    {operation::q_idx, from_0},
    {operation::kv_idx, from_0},
    {operation::scalar, passed},
    {operation::b, within},
    {operation::h, within},
    {operation::d_idx, within},
    {operation::bound, within},
    {operation::kv_lengths, within},
    {operation::depth, places},
    {operation::value_depth, places},
    {operation::query_length, places},
    {operation::key_length, places},
    {operation::heads, places},
    {operation::key_heads, places},
    {operation::batches, places},
    {operation::input, unknown}};

/// Rules of operations; for those of one argument, the second is the first again.
using kept_of_two = kept (*)(const kept&, const kept&);
constexpr kept_of_two both = [](const kept& x, const kept& y) {
    return kept{x.from_below && y.from_below, x.from_above && y.from_above};
};
constexpr kept_of_two smaller_of_first = [](const kept& x, const kept& y) {
    return kept{x.from_below && y.from_below, x.from_above};
};
constexpr kept_of_two unknown_of_two = [](const kept&, const kept&) { return unknown; };

constexpr by_operation<family::arithmetic, kept_of_two> of_arithmetic{
    {operation::negate, [](const kept& x, const kept&) { return kept{false, x.from_below}; }},
    {operation::absolute, [](const kept& x, const kept&) { return kept{true, x.from_below && x.from_above}; }},
    {operation::add, both},
    {operation::subtract, [](const kept& x, const kept& y) { return kept{false, x.from_above && y.from_below}; }},
    {operation::multiply, both},
    {operation::divide, smaller_of_first},
    {operation::remainder, [](const kept&, const kept& y) { return kept{y.from_below, y.from_above}; }},
    {operation::minimum,
     [](const kept& x, const kept& y) { return kept{x.from_below && y.from_below, x.from_above || y.from_above}; }},
    {operation::maximum,
     [](const kept& x, const kept& y) { return kept{x.from_below || y.from_below, x.from_above && y.from_above}; }}};

constexpr by_operation<family::bits, kept_of_two> of_bits{
    {operation::bit_and,
     [](const kept& x, const kept& y) {
         return kept{x.from_below || y.from_below, (x.from_below && x.from_above) || (y.from_below && y.from_above)};
     }},
    {operation::bit_or, unknown_of_two},
    {operation::bit_xor, unknown_of_two},
    {operation::shift_left, unknown_of_two},
    {operation::shift_right, smaller_of_first}};

class reader {
public:
    explicit reader(const graph_ir& graph) : graph_(graph), known_(graph.nodes.size()) {
        fold(graph.nodes, known_, [&](node_id, const instruction& n, const auto& arguments) {
            kept here = kept_of(n);
            for (std::size_t i = n.op == operation::load ? 1 : 0; i < n.argument_count; ++i) {
                const kept& below = arguments[i];
                here.query |= below.query, here.key |= below.key, here.read |= below.read;
            }
            here.query |= n.op == operation::q_idx, here.key |= n.op == operation::kv_idx;
            here.read |= n.op == operation::load;
            return here;
        });
    }

    bool may_leave(node_id index) const {
        const kept& it = at(index);
        return it.query && it.key && !it.read && !(it.from_below && it.from_above);
    }

private:
    const kept& at(node_id node) const { return known_[node]; }

    kept kept_of(const instruction& n) const {
        const auto x = [&](std::size_t i) -> const kept& { return at(n.arguments[i < n.argument_count ? i : 0]); };
        if (n.kind == kind::condition) return within;
        switch (family_of(n.op)) {
            case family::terminal: {
                kept it = of_terminals[n.op];
                it.from_below |= n.op == operation::constant && n.integer >= 0;
                return it;
            }
            case family::tensors: return n.op == operation::extent ? places : unknown;
            case family::conversion: return n.op == operation::to_integer ? x(0) : unknown;
            case family::arithmetic: {
                kept it = of_arithmetic[n.op](x(0), x(1));
                const auto is_constant = [&](node_id node) { return graph_.nodes[node].op == operation::constant; };
                it.from_below |= n.op == operation::subtract && x(0).length && is_constant(n.arguments[1]);
                return it;
            }
            case family::bits: return of_bits[n.op](x(0), x(1));
            case family::selection: {
                if (n.op == operation::where) return both(x(1), x(2));
                kept it = smaller_of_first(x(0), x(1));
                it.length = x(0).length;
                return it;
            }
            case family::sums:
            case family::function:
            case family::function_of_two:
            case family::classification:
            case family::comparison:
            case family::logic:
            case family::random:
            case family::attention:
            case family::recurrent:
            case family::patterns: break;
        }
        return unknown;
    }

    const graph_ir& graph_;
    node_map<kept> known_;
};

}  // namespace

std::vector<std::string> indices_that_may_leave(const graph_ir& graph) {
    const reader read(graph);
    const std::vector<bool> always = always_read(graph);
    std::vector<std::string> all;
    for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
        const instruction& n = graph.nodes[at];
        if (n.op != operation::load || !always[at]) continue;
        const instruction& of = graph.nodes[n.arguments[0]];
        if (of.op != operation::input) continue;
        const input_declaration& tensor = graph.inputs[static_cast<std::size_t>(of.input)];
        for (std::size_t axis = 0; axis < tensor.rank; ++axis) {
            const node_id index = n.arguments[axis + 1];
            if (!read.may_leave(index)) continue;
            const std::string text = text_of(graph, index);
            std::string said = fmt::format(
                "{0} is read at {1} along {2}, which may be no place of it and is then read at its end; try max(0, "
                "min({1}, extent<{3}>({0}) - 1)), or a number that is large enough in place of the extent",
                tensor.name, text, tensor.axes[axis].name, axis);
            if (std::find(all.begin(), all.end(), said) == all.end()) all.push_back(std::move(said));
        }
    }
    return all;
}

}  // namespace attune::generators::inline inspect
