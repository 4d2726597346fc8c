#include "base/text.hpp"
#include "call/shape/shape.hpp"

#include <attune/ir/integer_operations.hpp>

#include <attune/runtime/error.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <utility>

/// Lengths and heads that computed tensors state, and widths of tokens, are numbers of the call: kernels compute them
/// in 32 bits, and here they are computed before, with checks.
namespace attune::detail {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max(),
                       least = std::numeric_limits<std::int32_t>::min();

std::string_view spelling(operation op) {
    if (op == operation::queries) return "queries(...)";
    if (op == operation::keys) return "keys(...)";
    if (op == operation::precomputed) return "precomputed(...)";
    if (op == operation::same) return "same(...)";
    return op == operation::values ? "values(...)" : "tokens(...)";
}

/// What the argument of a computed tensor states, the formula being argument 0.
axis_kind axis_of(operation op, std::size_t argument) {
    if (op == operation::tokens || op == operation::precomputed) return axis_kind::free;
    if (argument == 3) return op == operation::values ? axis_kind::value_depth : axis_kind::depth;
    return argument == 2 ? axis_kind::head : op == operation::queries ? axis_kind::query : axis_kind::key;
}
std::string_view word_for(axis_kind axis) {
    switch (axis) {
        case axis_kind::head: return "number of heads";
        case axis_kind::free: return "width";
        case axis_kind::depth:
        case axis_kind::value_depth: return "depth";
        default: return "length";
    }
}

class number_evaluator {
public:
    number_evaluator(call_shape& shape, const graph_ir& graph, const matched_arguments& given)
        : shape_(shape), graph_(graph), given_(given) {}

    void state_depths() {
        for (const instruction& n : graph_.nodes)
            if (states_length(n) && n.argument_count > 3) state(n, 3);
    }
    void state_all() {
        for (const instruction& n : graph_.nodes)
            if (states_length(n))
                for (std::size_t argument = 1; argument < n.argument_count; ++argument) state(n, argument);
    }

    /// Kernels count the elements of a tensor in 32 bits.
    void check_precomputed() {
        for (const instruction& n : graph_.nodes) {
            if (n.op != operation::precomputed) continue;
            std::int64_t elements = std::max<std::int64_t>(shape_[axis_kind::batch] * number(axis_kind::head), 1);
            for (std::size_t argument = 2; argument < n.argument_count; argument += 2)
                if (__builtin_mul_overflow(elements, std::max<std::int64_t>(number_of(n, argument), 1), &elements) ||
                    elements > most / static_cast<std::int64_t>(sizeof(float)))
                    fail(say("at most ", most / sizeof(float), " elements in ", spelling(n.op)), "more",
                         "fewer batch elements or heads a call, or blocks of more keys");
        }
    }

    std::int64_t width(const instruction& tokens) { return number_of(tokens, 1); }
    std::int64_t number_at(node_id node) { return value(node); }

    /// Numbers that must be equal.
    void check_equalities() {
        const auto outer = std::exchange(of_, whose{operation::same, axis_kind::free});
        for (const node_id n : graph_.nodes.ids())
            if (graph_.nodes[n].op == operation::same) value(n);
        of_ = outer;
    }

private:
    std::int64_t number_of(const instruction& formed, std::size_t argument) {
        const auto outer = std::exchange(of_, whose{formed.op, axis_of(formed.op, argument)});
        const std::int64_t number = value(formed.arguments[argument]);
        if (argument == 3 || formed.op == operation::tokens) check_parts(formed.arguments[argument]);
        if (number < 0)
            fail(say(article(), word(), " from 0 to ", most, " in ", spelling(of_.op)), std::to_string(number),
                 "max(0, ...), or other extents");
        of_ = outer;
        return number;
    }

    /// Channels that a tensor has are divided among parts and heads: none may be left.
    void check_parts(node_id width) {
        std::int64_t parts = 1;
        const instruction* n = &node_of(graph_, width);
        for (; n->op == operation::divide || n->op == operation::same; n = &node_of(graph_, width = n->arguments[0]))
            if (n->op == operation::divide) parts = checked(parts * value(n->arguments[1]));
        if (n->op == operation::extent && extent(*n) % parts != 0)
            fail(say("a multiple of ", parts, " in ", text(width)), std::to_string(extent(*n)),
                 "as many channels in every part and every head");
    }

    void state(const instruction& formed, std::size_t argument) {
        const axis_kind axis = axis_of(formed.op, argument);
        bool& busy = busy_[static_cast<std::size_t>(axis)];
        if (busy)
            fail(say("a ", word_for(axis), " of ", spelling(formed.op), " that other numbers say"),
                 "one that asks for itself", "extent<2>(tensor) for what a tensor has");
        busy = true;
        const std::int64_t number = number_of(formed, argument);
        busy = false;
        if (shape_.has(axis) && shape_[axis] != number)
            fail(say(name_of(axis), " extent ", shape_[axis], " in ", spelling(formed.op), ", as in ",
                     shape_.from[static_cast<std::size_t>(axis)]),
                 std::to_string(number),
                 "one length for all queries, one for all keys and values, one number of heads and one depth");
        if (!shape_.has(axis)) shape_.set(axis, number, spelling(formed.op));
    }

    /// A number of the call, which may be stated by a node that is still to come.
    std::int64_t number(axis_kind axis) {
        if (!shape_.has(axis) || busy_[static_cast<std::size_t>(axis)])
            for (const instruction& n : graph_.nodes) {
                const std::size_t argument = axis == axis_kind::head ? 2 : 1;
                if (!states_length(n) || argument >= n.argument_count || axis_of(n.op, argument) != axis) continue;
                state(n, argument);
                break;
            }
        return shape_.has(axis) ? shape_[axis] : 1;
    }

    std::int64_t extent(const instruction& node) {
        const instruction& of = node_of(graph_, node.arguments[0]);
        if (of.op != operation::input) refuse();
        const auto input = static_cast<std::size_t>(of.input);
        const axis_kind axis = graph_.inputs[input].axes[static_cast<std::size_t>(node.integer)].kind;
        const std::int64_t own = given_.inputs[input]->view.extent(static_cast<int>(node.integer));
        if (own == 1 && !shape_.is_own(input, axis)) {  // it broadcasts
            if (axis == axis_kind::query || axis == axis_kind::key || axis == axis_kind::head) return number(axis);
            if (axis == axis_kind::position) return std::max(number(axis_kind::query), number(axis_kind::key));
        }
        return shape_.logical(input, axis, own);
    }

    std::string_view word() const {
        if (of_.op == operation::same) return "number";
        return of_.op == operation::precomputed ? "extent" : word_for(of_.axis);
    }
    std::string_view article() const { return of_.op == operation::precomputed ? "an " : "a "; }

    [[noreturn]] void refuse() const {
        fail(say(article(), word(), " of ", spelling(of_.op),
                 " made of constants, lengths, extents, scalars and their arithmetic"),
             "one that needs more than the call's numbers", "a scalar of the variant that the caller computes");
    }

    std::int64_t checked(std::int64_t x) const {
        if (x < least || x > most)
            fail(say("numbers of 32 bits in the ", word(), " of ", spelling(of_.op)), std::to_string(x),
                 "smaller extents, or a call for each part");
        return x;
    }

    std::int64_t value(node_id at) {
        const instruction& n = node_of(graph_, at);
        if (n.kind == kind::condition) return condition(n);
        if (n.kind != kind::integer) refuse();
        const auto x = [&](std::size_t i) { return i < n.argument_count ? value(n.arguments[i]) : 0; };
        switch (family_of(n.op)) {
            case family::terminal: return terminal(n);
            case family::tensors:
                if (n.op == operation::extent) return extent(n);
                refuse();
            case family::conversion:
                if (node_of(graph_, n.arguments[0]).kind == kind::condition) return x(0);
                refuse();
            case family::arithmetic:
            case family::bits: {
                const std::int64_t first = x(0);
                return computed(n.op, first, x(1));
            }
            case family::selection: return n.op == operation::same ? same(n) : x(x(0) ? 1 : 2);
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
        refuse();
    }

    std::int64_t passed(const instruction& n) const {
        const auto input = static_cast<std::size_t>(n.input);
        return scalar_of(graph_.inputs[input], *given_.inputs[input]).integer;
    }

    std::int64_t terminal(const instruction& n) {
        using number_of = std::int64_t (*)(number_evaluator&, const instruction&);
        constexpr number_of differs = nullptr;  // within the call
        static constexpr by_operation<family::terminal, number_of> numbers{
            {operation::b, differs},
            {operation::h, differs},
            {operation::q_idx, differs},
            {operation::kv_idx, differs},
            {operation::d_idx, differs},
            {operation::bound, differs},
            {operation::input, differs},
            {operation::kv_lengths, differs},
            {operation::constant, [](number_evaluator& e, const instruction& n) { return e.checked(n.integer); }},
            {operation::scalar, [](number_evaluator& e, const instruction& n) { return e.passed(n); }},
            {operation::depth, [](number_evaluator& e, const instruction&) { return e.shape_[axis_kind::depth]; }},
            {operation::value_depth,
             [](number_evaluator& e, const instruction&) { return e.shape_[axis_kind::value_depth]; }},
            {operation::heads, [](number_evaluator& e, const instruction&) { return e.number(axis_kind::head); }},
            {operation::key_heads,
             [](number_evaluator& e, const instruction&) {
                 return e.shape_.has(axis_kind::key_head) ? e.shape_[axis_kind::key_head] : e.number(axis_kind::head);
             }},
            {operation::batches, [](number_evaluator& e, const instruction&) { return e.shape_[axis_kind::batch]; }},
            {operation::query_length,
             [](number_evaluator& e, const instruction&) { return e.number(axis_kind::query); }},
            {operation::key_length, [](number_evaluator& e, const instruction&) { return e.number(axis_kind::key); }}};
        const number_of number = numbers[n.op];
        return number ? number(*this, n) : (refuse(), 0);
    }

    /// same(x, max(x, y)) states that x is y at least.
    bool is_at_least(const instruction& same) const {
        const instruction& most = node_of(graph_, same.arguments[1]);
        return most.op == operation::maximum &&
               (most.arguments[0] == same.arguments[0] || most.arguments[1] == same.arguments[0]);
    }

    std::int64_t same(const instruction& n) {
        const std::int64_t first = value(n.arguments[0]), second = value(n.arguments[1]);
        if (first != second && node_of(graph_, n.arguments[0]).op == operation::query_length &&
            node_of(graph_, n.arguments[1]).op == operation::key_length)
            fail("as many queries as keys, as queries are counted from 0", say(first, " and ", second),
                 "their positions in the formula: rotary_half(q, cos, sin, q_idx + offset)");
        if (first < second && is_at_least(n))
            fail(say("at least ", second, " in ", text(n.arguments[0]), ", as the formula needs"),
                 std::to_string(first), "a longer tensor, or fewer queries a call");
        if (first != second)
            fail(say("the same number in ", text(n.arguments[0]), " and ", text(n.arguments[1])),
                 say(first, " and ", second),
                 "tensors that are as long there: weights as wide as what they are applied to, pages of one "
                 "size");
        return first;
    }

    /// As kernels compute it, but for what wraps around: that is refused.
    std::int64_t computed(operation op, std::int64_t x, std::int64_t y) const {
        if ((op == operation::divide || op == operation::remainder) && y == 0)
            fail(say("a divisor other than 0 in the ", word(), " of ", spelling(of_.op)), "0",
                 "max(1, ...), or other extents");
        if ((op == operation::shift_left || op == operation::shift_right) && (y < 0 || y > 31))
            fail(say("shifts by 0 to 31 bits in the ", word(), " of ", spelling(of_.op)), std::to_string(y),
                 "min(31, max(0, ...))");
        return checked(exact_integers::of(op)(x, y));
    }

    bool condition(const instruction& n) {
        const auto x = [&](std::size_t i) { return value(n.arguments[i]); };
        if (family_of(n.op) == family::comparison) {
            const std::int64_t first = x(0);
            return integer_comparisons[n.op](first, x(1));
        }
        if (n.op == operation::logical_and) return x(0) && x(1);
        if (n.op == operation::logical_or) return x(0) || x(1);
        if (n.op == operation::logical_not) return !x(0);
        refuse();
    }

    /// A number of the call as the formula has it.
    std::string text(node_id at) const {
        const instruction& n = node_of(graph_, at);
        const auto x = [&](std::size_t i) { return text(n.arguments[i]); };
        if (n.op == operation::constant) return std::to_string(n.integer);
        if (n.op == operation::scalar) return std::string(graph_.inputs[static_cast<std::size_t>(n.input)].name);
        if (n.op == operation::extent)
            return say("extent<", n.integer, ">(",
                       graph_.inputs[static_cast<std::size_t>(node_of(graph_, n.arguments[0]).input)].name, ")");
        if (n.op == operation::multiply || n.op == operation::divide) return say(x(0), about(n.op).text, x(1));
        if (n.op == operation::same) return x(0);
        return family_of(n.op) == family::terminal ? std::string(about(n.op).text) : "the layer's own number";
    }

    call_shape& shape_;
    const graph_ir& graph_;
    const matched_arguments& given_;
    struct whose {
        operation op;
        axis_kind axis;
    } of_{};                      // whose number is being computed, for messages
    std::array<bool, 9> busy_{};  // numbers that are being computed, by axis
};

}  // namespace

void state_depths(call_shape& shape, const graph_ir& graph, const matched_arguments& given) {
    number_evaluator(shape, graph, given).state_depths();
}

void state_numbers(call_shape& shape, const graph_ir& graph, const matched_arguments& given) {
    number_evaluator(shape, graph, given).state_all();
}

void check_equalities(const call_shape& shape, const graph_ir& graph, const matched_arguments& given) {
    call_shape settled = shape;
    number_evaluator evaluator(settled, graph, given);
    evaluator.check_equalities();
    evaluator.check_precomputed();
}

std::int64_t number_of_call(const call_shape& shape, const graph_ir& graph, const matched_arguments& given,
                            node_id node) {
    call_shape settled = shape;
    return number_evaluator(settled, graph, given).number_at(node);
}

std::int64_t width_of_tokens(const call_shape& shape, const graph_ir& graph, const matched_arguments& given,
                             node_id node) {
    call_shape settled = shape;  // nothing is left to state
    return number_evaluator(settled, graph, given).width(node_of(graph, node));
}

}  // namespace attune::detail
