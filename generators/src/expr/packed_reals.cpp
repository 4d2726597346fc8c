// Integers of a few bits, several in a byte, as reals.
#include "expr/math.hpp"
#include "expr/pointwise.hpp"

#include <attune/ir/stores.hpp>

#include <cstdlib>
#include <optional>

namespace attune::generators::inline expr {
using namespace Halide;

namespace {

/// (byte >> shift & mask) + offset.
struct packed_code {
    int byte{}, shift{-1}, mask{}, offset{};  ///< nodes, a constant and a constant; no shift: -1
};

std::optional<int> constant_of(const instruction& node) {
    if (node.op != operation::constant || node.kind != kind::integer) return std::nullopt;
    return static_cast<int>(node.integer);
}

/// Takes a constant off one side of an operation of two; the node of the other side, or nothing.
std::optional<int> beside_constant(const graph_ir& graph, const instruction& node, int& number) {
    const int left = node.arguments[0], right = node.arguments[1];
    if (const auto known = constant_of(graph.nodes[right])) return number = *known, left;
    if (node.op == operation::subtract) return std::nullopt;
    if (const auto known = constant_of(graph.nodes[left])) return number = *known, right;
    return std::nullopt;
}

std::optional<packed_code> packed_code_of(const graph_ir& graph, int integer) {
    constexpr int most_offset = (1 << 15) - 1, byte_bits = 8;
    packed_code found;
    const instruction* node = &graph.nodes[integer];
    if (node->op == operation::add || node->op == operation::subtract) {
        const auto code = beside_constant(graph, *node, found.offset);
        if (!code || std::abs(std::int64_t{found.offset}) > most_offset) return std::nullopt;
        if (node->op == operation::subtract) found.offset = -found.offset;
        node = &graph.nodes[*code];
    }
    if (node->op != operation::bit_and) return std::nullopt;
    const auto shifted = beside_constant(graph, *node, found.mask);
    if (!shifted || found.mask < 0 || found.mask >= 1 << byte_bits) return std::nullopt;
    found.byte = *shifted;
    if (const instruction& shift = graph.nodes[*shifted]; shift.op == operation::shift_right) {
        found.byte = shift.arguments[0], found.shift = shift.arguments[1];
        if (!integers_of(graph.nodes, graph.inputs, shift.arguments[1]).is_within({0, byte_bits - 1}))
            return std::nullopt;
    }
    const instruction& byte = graph.nodes[found.byte];
    if (byte.op != operation::load || graph.nodes[byte.arguments[0]].op != operation::input ||
        graph.inputs[graph.nodes[byte.arguments[0]].input].element != element_type::u8)
        return std::nullopt;
    return found;
}

}  // namespace

/// Serves channels of a cache. Bytes are widened as they are read; two operations on bits and a subtraction do the work
/// of a shift, a mask, an offset and a conversion. The mask is hidden from LLVM: it would mask bytes first, in a
/// register, and widening takes longer from a register than from memory.
Expr pointwise::real_of_packed(const instruction& conversion) {
    if (!decodes(request_.schedule) || !request_.target->widens_bytes) return {};
    const int integer = conversion.arguments[0];
    const std::optional<packed_code> code = packed_code_of(request_.graph(), integer);
    if (!code || !depends_[integer].channel) return {};
    const Expr byte = evaluate(code->byte, false).value,
               shift = code->shift < 0 ? Expr(0) : evaluate(code->shift, false).value,
               mask = cast<std::uint32_t>(code->mask) | inputs_.unknown_zero;
    return real_of_bits(byte, shift, mask, code->offset);
}

/// A condition; in bytes where it compares some.
Expr pointwise::condition_of_bytes(int condition) {
    const instruction& node = request_.graph().nodes[condition];
    const auto is_byte = [&](int i) {
        return integers_of(request_.graph().nodes, request_.graph().inputs, node.arguments[i])
            .is_within(interval_of(element_type::u8));
    };
    if (node.op != operation::less || request_.graph().nodes[node.arguments[0]].kind != kind::integer || !is_byte(0) ||
        !is_byte(1))
        return evaluate(condition, false).value;
    return byte_of(node.arguments[0]) < byte_of(node.arguments[1]);
}

}  // namespace attune::generators::inline expr
