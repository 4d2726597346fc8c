// Integers of a few bits, several in a byte, as reals and as bytes.
#include "expr/math.hpp"
#include "expr/pointwise.hpp"

#include <attune/ir/stores.hpp>

#include <cstdlib>
#include <optional>

namespace attune::generators {
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

/// Operations whose last eight bits are decided by those of their arguments.
using of_bytes = Expr (*)(const Expr&, const Expr&);
constexpr by_operation<family::arithmetic, of_bytes> by_last_bits_of_arithmetic{
    {operation::negate, [](const Expr& a, const Expr&) { return -a; }},
    {operation::absolute, nullptr},
    {operation::add, [](const Expr& a, const Expr& b) { return a + b; }},
    {operation::subtract, [](const Expr& a, const Expr& b) { return a - b; }},
    {operation::multiply, [](const Expr& a, const Expr& b) { return a * b; }},
    {operation::divide, nullptr},
    {operation::remainder, nullptr},
    {operation::minimum, nullptr},
    {operation::maximum, nullptr}};
constexpr by_operation<family::bits, of_bytes> by_last_bits{
    {operation::bit_and, [](const Expr& a, const Expr& b) { return a & b; }},
    {operation::bit_or, [](const Expr& a, const Expr& b) { return a | b; }},
    {operation::bit_xor, [](const Expr& a, const Expr& b) { return a ^ b; }},
    {operation::shift_left, nullptr},
    {operation::shift_right, [](const Expr& a, const Expr& b) { return a >> b; }}};

}  // namespace

/// Of channels of a cache. Bytes are widened as they are read; what a shift, a mask, an offset and a conversion
/// would take is done by two operations of bits and a subtraction. LLVM would rather mask bytes first, in a register,
/// from which widening them takes longer than from memory: so it is not told the mask.
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

Expr pointwise::byte_of(int integer) {
    const instruction& node = request_.graph().nodes[integer];
    const auto argument = [&](int i) { return byte_of(node.arguments[i]); };
    const auto is_within = [&](int i, const integer_range& range) {
        return integers_of(request_.graph().nodes, request_.graph().inputs, node.arguments[i]).is_within(range);
    };
    const bool is_hoisted = at_.known.contains(integer), shifts = node.op == operation::shift_right;
    const family of = family_of(node.op);
    const of_bytes rule = is_hoisted                 ? nullptr
                          : of == family::arithmetic ? by_last_bits_of_arithmetic[node.op]
                          : of == family::bits       ? by_last_bits[node.op]
                                                     : nullptr;
    if (node.op == operation::constant) return Internal::make_const(UInt(8), node.integer & 255);
    if (!is_hoisted && node.op == operation::where)
        return select(evaluate(node.arguments[0], false).value, argument(1), argument(2));
    if (rule && shifts && is_within(0, {0, 255}) && is_within(1, {0, 7}))  // zeros come in
        return rule(argument(0), cast<std::uint8_t>(evaluate(node.arguments[1], false).value));
    if (rule && !shifts) return rule(argument(0), node.argument_count > 1 ? argument(1) : Expr());
    const Expr value = evaluate(integer, false).value;
    const auto* widened = value.as<Internal::Cast>();  // an element of 8 bits, as it lies in memory
    return cast<std::uint8_t>(widened && widened->value.type().bits() == 8 ? widened->value : value);
}

}  // namespace attune::generators
