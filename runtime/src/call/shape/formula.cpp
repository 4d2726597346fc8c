#include "call/shape/formula.hpp"
#include "base/text.hpp"

#include <attune/ir/print.hpp>

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

    void write(node_id at, int outer) {
        if (text.size() > longest) return;
        const instruction& n = graph_.nodes[at];
        if (n.op == operation::constant)
            return n.kind == kind::integer ? append(text, n.integer) : append(text, real(n.number));
        if (n.input >= 0) return append(text, graph_.inputs[static_cast<std::size_t>(n.input)].name);
        if (n.op == operation::bound) return append(text, graph_.indices[static_cast<std::size_t>(n.integer)]);
        if (family_of(n.op) == family::conversion)  // implied, but of conditions
            return graph_.nodes[n.arguments[0]].kind == kind::condition ? write(n.arguments[0], 99)
                                                                        : write(n.arguments[0], outer);
        if (n.op == operation::load) return write(n.arguments[0], 99), list(n, 1);
        if (n.op == operation::extent) {
            append(text, "extent<"), append(text, n.integer), append(text, ">");
            return list(n, 0);
        }
        if (n.op == operation::from_bits) {
            append(text, "from_bits<"), append(text, name_of(element_in_bits(n))), append(text, ">");
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

}  // namespace

std::string formula_of(const graph_ir& graph, node_id node) {
    writer w(graph);
    w.write(node, 0);
    if (w.text.size() > longest) w.text.resize(longest), w.text += "...";
    return std::move(w.text);
}

}  // namespace attune::detail
