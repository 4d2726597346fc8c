#include "emit/index_warnings.hpp"

#include "analysis/node_text.hpp"
#include "analysis/plan.hpp"
#include "base/formatting.hpp"

#include <algorithm>

namespace attune::generators {
namespace {

/// What a formula says of an integer, whatever the call: that it is not below 0, that something other than a position
/// keeps it from growing.
struct kept {
    bool from_below{}, from_above{};
    bool length{};  ///< a number of places, of which there is one at least
    bool query{}, key{}, read{};
};

class reader {
public:
    explicit reader(const graph_ir& graph) : graph_(graph) {
        for (const instruction& n : graph.nodes) {
            kept here = kept_of(n);
            for (int i = n.op == operation::load ? 1 : 0; i < n.argument_count; ++i) {
                const kept& below = at(n.arguments[static_cast<std::size_t>(i)]);
                here.query |= below.query, here.key |= below.key, here.read |= below.read;
            }
            here.query |= n.op == operation::q_idx, here.key |= n.op == operation::kv_idx;
            here.read |= n.op == operation::load;
            known_.push_back(here);
        }
    }

    bool may_leave(int index) const {
        const kept& it = at(index);
        return it.query && it.key && !it.read && !(it.from_below && it.from_above);
    }

private:
    const kept& at(int node) const { return known_[static_cast<std::size_t>(node)]; }

    kept kept_of(const instruction& n) const {
        const auto x = [&](std::size_t i) -> const kept& { return at(n.arguments[i]); };
        const auto is_constant = [&](std::size_t i) {
            return graph_.nodes[static_cast<std::size_t>(n.arguments[i])].op == operation::constant;
        };
        if (n.kind == kind::condition) return {true, true};
        switch (n.op) {
            case operation::constant: return {n.integer >= 0, true};
            case operation::q_idx:
            case operation::kv_idx: return {true, false};
            case operation::scalar: return {false, true};
            case operation::extent:
            case operation::depth:
            case operation::value_depth:
            case operation::query_length:
            case operation::key_length:
            case operation::heads:
            case operation::key_heads:
            case operation::batches: return {true, true, true};
            case operation::b:
            case operation::h:
            case operation::d_idx:
            case operation::bound:
            case operation::kv_lengths: return {true, true};
            case operation::same:
            case operation::divide:
            case operation::shift_right:
                return {x(0).from_below && x(1).from_below, x(0).from_above, n.op == operation::same && x(0).length};
            case operation::add:
            case operation::multiply: return {x(0).from_below && x(1).from_below, x(0).from_above && x(1).from_above};
            case operation::subtract: return {x(0).length && is_constant(1), x(0).from_above && x(1).from_below};
            case operation::remainder: return {x(1).from_below, x(1).from_above};
            case operation::minimum: return {x(0).from_below && x(1).from_below, x(0).from_above || x(1).from_above};
            case operation::maximum: return {x(0).from_below || x(1).from_below, x(0).from_above && x(1).from_above};
            case operation::bit_and:
                return {x(0).from_below || x(1).from_below,
                        (x(0).from_below && x(0).from_above) || (x(1).from_below && x(1).from_above)};
            case operation::where: return {x(1).from_below && x(2).from_below, x(1).from_above && x(2).from_above};
            case operation::absolute: return {true, x(0).from_below && x(0).from_above};
            case operation::negate: return {false, x(0).from_below};
            case operation::to_integer: return x(0);
            default: return {};
        }
    }

    const graph_ir& graph_;
    std::vector<kept> known_;
};

}  // namespace

std::vector<std::string> indices_that_may_leave(const graph_ir& graph) {
    const reader read(graph);
    const std::vector<bool> always = always_read(graph);
    std::vector<std::string> all;
    for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
        const instruction& n = graph.nodes[at];
        if (n.op != operation::load || !always[at]) continue;
        const instruction& of = graph.nodes[static_cast<std::size_t>(n.arguments[0])];
        if (of.op != operation::input) continue;
        const input_declaration& tensor = graph.inputs[static_cast<std::size_t>(of.input)];
        for (std::size_t axis = 0; axis < tensor.rank; ++axis) {
            const int index = n.arguments[axis + 1];
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

}  // namespace attune::generators
