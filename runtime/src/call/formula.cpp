#include "call/formula.hpp"
#include "base/text.hpp"

#include <attune/ir/print.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace attune::detail {
namespace {

constexpr std::size_t longest = 160;  // characters of a formula before it is cut

class writer {
public:
    explicit writer(const graph_ir& graph) : graph_(graph) {}
    std::string text;

    void write(int at, int outer) {
        if (text.size() > longest) return;
        const instruction& n = graph_.nodes[static_cast<std::size_t>(at)];
        if (n.op == operation::constant)
            return n.kind == kind::integer ? append(text, n.integer) : append(text, real(n.number));
        if (n.input >= 0) return append(text, graph_.inputs[static_cast<std::size_t>(n.input)].name);
        if (n.op == operation::bound) return append(text, graph_.indices[static_cast<std::size_t>(n.integer)]);
        if (family_of(n.op) == family::conversion)  // implied, but of conditions
            return graph_.nodes[static_cast<std::size_t>(n.arguments[0])].kind == kind::condition
                       ? write(n.arguments[0], 99)
                       : write(n.arguments[0], outer);
        if (n.op == operation::load) return write(n.arguments[0], 99), list(n, 1);
        if (n.op == operation::extent) {
            append(text, "extent<"), append(text, n.integer), append(text, ">");
            return list(n, 0);
        }
        const std::string_view spelt = about(n.op).text;
        const int precedence = about(n.op).precedence;
        if (precedence == 0) return append(text, spelt), list(n, 0);
        const bool parentheses = precedence < outer;
        if (parentheses) text += '(';
        if (n.argument_count > 1) write(n.arguments[0], precedence);
        append(text, spelt);
        if (n.argument_count == 1) write(n.arguments[0], precedence);
        if (n.argument_count > 1) write(n.arguments[1], precedence + 1);
        if (parentheses) text += ')';
    }

private:
    void list(const instruction& n, int from) {
        text += '(';
        for (int i = from; i < n.argument_count; ++i) {
            if (i > from) text += ", ";
            write(n.arguments[static_cast<std::size_t>(i)], 0);
        }
        text += ')';
    }
    static std::string real(double x) {
        if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
        std::array<char, 32> digits{};
        return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), x).ptr};
    }
    const graph_ir& graph_;
};

/// What the value of a node is made of.
struct made_of {
    bool query{}, key{}, pairs{}, score{};
};

class reader {
public:
    explicit reader(const graph_ir& graph) : graph_(graph) {
        for (const instruction& n : graph.nodes) {
            made_of here;
            for (int i = 0; i < n.argument_count; ++i) {
                const made_of& below = parts_[static_cast<std::size_t>(n.arguments[static_cast<std::size_t>(i)])];
                here.query |= below.query, here.key |= below.key, here.pairs |= below.pairs, here.score |= below.score;
            }
            if (n.op == operation::q_idx) here.query = true;
            if (n.op == operation::kv_idx) here.key = true;
            if (n.kind == kind::scores || n.kind == kind::row || n.kind == kind::weights) here.score = true;
            if ((n.op == operation::load || n.op == operation::sum || n.op == operation::any) && here.query && here.key)
                here.pairs = true;
            parts_.push_back(here);
        }
    }
    const made_of& operator[](int node) const { return parts_[static_cast<std::size_t>(node)]; }

    std::string skips(int condition) const {
        const made_of& it = (*this)[condition];
        if (it.score) return "depends on the scores: skips no block";
        if (it.pairs)
            return "reads something for each pair of a query and a key: skips no block unless other conditions do";
        if (it.query && it.key) return "bounded over a block from the ranges of its indices and tables";
        if (it.key) return "known for each block of keys, from a table of its extremes";
        if (it.query) return "known for each tile of queries, from a table of its extremes";
        return "one answer for a head and batch element";
    }

    void conjuncts(int condition, std::vector<explanation::condition>& to) const {
        const instruction& n = graph_.nodes[static_cast<std::size_t>(condition)];
        if (n.op == operation::logical_and) {
            for (const int i : {0, 1}) conjuncts(n.arguments[static_cast<std::size_t>(i)], to);
            return;
        }
        const std::string text = formula_of(graph_, condition);
        for (const auto& known : to)
            if (known.text == text) return;
        to.push_back({text, skips(condition)});
    }

private:
    const graph_ir& graph_;
    std::vector<made_of> parts_;
};

bool is_masked(const instruction& n) {
    return n.op == operation::constant && n.kind == kind::real && n.number < 0 && std::isinf(n.number);
}

}  // namespace

std::string formula_of(const graph_ir& graph, int node) {
    writer w(graph);
    w.write(node, 0);
    if (w.text.size() > longest) w.text.resize(longest), w.text += "...";
    return std::move(w.text);
}

std::vector<explanation::condition> conditions_of(const graph_ir& graph) {
    const reader read(graph);
    std::vector<explanation::condition> all;
    for (const instruction& n : graph.nodes) {
        const auto argument = [&](std::size_t i) -> const instruction& {
            return graph.nodes[static_cast<std::size_t>(n.arguments[i])];
        };
        if (n.op == operation::mask)
            read.conjuncts(n.arguments[1], all);
        else if (n.op == operation::where && n.kind == kind::scores && is_masked(argument(2)))
            read.conjuncts(n.arguments[0], all);
        else if (n.op == operation::where && n.kind == kind::scores && is_masked(argument(1)))
            all.push_back({"!(" + formula_of(graph, n.arguments[0]) + ")", read.skips(n.arguments[0])});
    }
    return all;
}

std::vector<std::string> semantics_of(const graph_ir& graph, std::int64_t heads, std::int64_t key_heads,
                                      bool with_lengths) {
    std::vector<std::string> all;
    const auto has = [&](auto test) { return std::any_of(graph.nodes.begin(), graph.nodes.end(), test); };
    const auto has_operation = [&](operation op) { return has([=](const instruction& n) { return n.op == op; }); };
    const auto argument = [&](const instruction& n, std::size_t i) -> const instruction& {
        return graph.nodes[static_cast<std::size_t>(n.arguments[i])];
    };
    if (!has_operation(operation::contract)) return all;

    const bool compares =
        has([&](const instruction& n) { return n.kind == kind::condition && family_of(n.op) == family::comparison; });
    if (compares && has_operation(operation::q_idx) && has_operation(operation::kv_idx)) {
        const bool shifted = has([&](const instruction& n) {
            return n.op == operation::subtract &&
                   (argument(n, 0).op == operation::kv_lengths || argument(n, 0).op == operation::key_length) &&
                   argument(n, 1).op == operation::query_length;
        });
        all.push_back(shifted ? "positions are aligned bottom-right where the number of keys less that of queries is "
                                "added: the last query meets the last key"
                              : "positions are aligned top-left: query 0 meets key 0");
    }
    const bool sink = has([](const instruction& n) {
        return (n.op == operation::softmax || n.op == operation::log_sum_exp) && n.argument_count == 2;
    });
    all.push_back(
        "a masked pair weighs exactly 0; -infinity in a float input or in where() masks, every finite score counts");
    if (has_operation(operation::unnormalized))
        all.push_back("weights are the scores as they are, not normalised");
    else if (sink)
        all.push_back("a row without a visible key: output 0, log-sum-exp the sink, which joins the denominator only");
    else
        all.push_back("a row without a visible key: output 0, log-sum-exp -infinity");
    if (has_operation(operation::log_sum_exp))
        all.push_back("log-sum-exp: the natural logarithm, of the scores as softmax sees them");
    if (heads != key_heads && key_heads > 0) all.push_back(say("query head h reads key head h / ", heads / key_heads));
    if (with_lengths) all.push_back("keys from kv_lengths(b) on are never read");
    return all;
}

}  // namespace attune::detail
