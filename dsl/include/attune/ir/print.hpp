#pragma once
#include <attune/ir/builder.hpp>
#include <attune/ir/operations.hpp>
#include <attune/ir/recurrence.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // the lists of a graph are indexed by int

/// A graph as text: C++ of this language with aliases written out, minimal parentheses, and a line for each part that
/// is used twice.
namespace attune::dsl::detail {

/// Writes into a buffer, or counts where there is none.
struct text_writer {
    char* to{};
    std::size_t size{};
    constexpr void put(char c) {
        if (to) to[size] = c;
        ++size;
    }
    constexpr void put(std::string_view s) {
        for (char c : s) put(c);
    }
    constexpr void put_unsigned(std::uint64_t x, int digits = 1) {
        char reversed[20]{};
        int n = 0;
        for (; x > 0 || n < digits; x /= 10) reversed[n++] = static_cast<char>('0' + x % 10);
        while (n > 0) put(reversed[--n]);
    }
    constexpr void put_integer(std::int64_t x) {
        if (x < 0) put('-');
        put_unsigned(x < 0 ? 0 - static_cast<std::uint64_t>(x) : static_cast<std::uint64_t>(x));
    }
    constexpr void put_real(double x);
};

/// Exact: the fewest decimals that read back as x, or hexadecimal where 15 digits are not enough.
constexpr void text_writer::put_real(double x) {
    if (x < 0) put('-'), x = -x;
    if (x == std::numeric_limits<double>::infinity()) return put("inf");
    double power = 1;
    for (int decimals = 0; decimals <= 18; ++decimals, power *= 10) {
        const double scaled = x * power;
        if (scaled >= 1e15) break;
        const auto whole = static_cast<std::uint64_t>(scaled + 0.5);
        if (static_cast<double>(whole) / power != x) continue;
        const auto unit = static_cast<std::uint64_t>(power);
        put_unsigned(whole / unit);
        put('.');
        return put_unsigned(whole % unit, decimals > 0 ? decimals : 1);
    }
    const auto bits = std::bit_cast<std::uint64_t>(x);
    put("0x1.");
    for (int shift = 48; shift >= 0; shift -= 4) put("0123456789abcdef"[(bits >> shift) & 15]);
    put('p');
    put_integer(static_cast<std::int64_t>(bits >> 52) - 1023);
}

/// Words that an input or index must not be called in the text: operations, the language's other words, and C++'s.
constexpr bool is_a_word(std::string_view name) {
    for (const operation_row& each : operation_table::rows_of_all)
        if (each.text == name) return true;
    constexpr std::string_view words =
        " inf q k v kv_lengths batch head key_head query key position axis input scalar output out lse "
        "bound_index all bit softmax_plus_one linear split_heads merge_heads residual gelu layer_norm apply "
        "dropout rotary_half rotary_interleaved rms_norm channels outputs state merge ceil isfinite silu relu "
        "gelu gelu_tanh softplus clamp logaddexp floor_div causal window bottom_right causal_bottom_right "
        "softcap alibi_slope flex flex_scores score_mod mask_mod f32 bf16 f16 i32 u8 boolean i8 f8_e4m3 "
        "f8_e5m2 i64 i16 f64 element_type store unit causal_convolution newest S attune dsl name kind node gradient of "
        "wrt shard before of_shard blocks blocks_of q8_0 q4_0 q4_1 mxfp4 nvfp4 "
        "alignas alignof asm auto bool break case catch char class const constexpr continue default delete do double "
        "else enum explicit extern false final float for "
        "friend goto if inline int long mutable namespace new not operator or override private protected public "
        "register requires return short signed sizeof static "
        "struct switch template this throw true try typedef typeid typename union unsigned using virtual void volatile "
        "while xor and ";
    for (std::size_t at = words.find(name); at != std::string_view::npos; at = words.find(name, at + 1))
        if (words[at - 1] == ' ' && words[at + name.size()] == ' ') return true;
    return false;
}

struct describer {
    const ir_builder& list;
    text_writer to{};
    node_table<std::int16_t> named{};  // line number of a part used twice, from 1; 0 elsewhere

    /// Parts that get a line of their own: large values used more than once.
    constexpr void find_shared() {
        node_table<int> uses{}, sizes{};
        int lines = 0;
        for (node_id at{}; at < list.node_count; ++at) {
            const instruction& i = list.nodes[at];
            sizes[at] = 1;
            for (int a = 0; a < i.argument_count; ++a) uses[i.arguments[a]]++, sizes[at] += sizes[i.arguments[a]];
            if (sizes[at] > 1000) sizes[at] = 1000;
        }
        for (node_id at{}; at < list.node_count; ++at) {
            const bool stage = list.nodes[at].kind == kind::scores || list.nodes[at].kind == kind::weights;
            if (uses[at] > 1 && sizes[at] > (stage ? 3 : 12)) named[at] = static_cast<std::int16_t>(++lines);
        }
    }

    constexpr void identifier(std::string_view name) {
        to.put(name);
        if (is_a_word(name)) to.put('_');
    }

    /// q, k or v: the language declares them.
    constexpr bool is_given(const input_declaration& d) const {
        return d == given_inputs[0] || d == given_inputs[1] || d == given_inputs[2];
    }

    constexpr void name(node_id at) { to.put("part_"), to.put_unsigned(static_cast<std::uint64_t>(named[at])); }

    /// Conversions are written only where C++ would not make them by itself: beside a real the conversion is implied,
    /// and in functions that know reals only.
    constexpr bool conversion_is_implied(const instruction& user) const {
        const family of = family_of(user.op);
        if (of == family::function || of == family::function_of_two) return true;
        if (user.argument_count == 1) return user.op == operation::as_row || user.op == operation::as_output;
        for (int a = 0; a < user.argument_count; ++a) {
            const instruction& x = list.nodes[user.arguments[a]];
            if ((is_real(x.kind) || x.kind == kind::weights) && x.op != operation::to_real) return true;
        }
        return false;
    }

    /// Whether an integer is made of a quotient. Its conversion to a real is written out, since a fraction could be
    /// meant.
    constexpr bool is_rounded_down(node_id at) const {
        const instruction& i = list.nodes[at];
        const bool passes_on = family_of(i.op) == family::arithmetic || i.op == operation::where;
        if (i.op == operation::divide || !passes_on || i.op == operation::remainder) return i.op == operation::divide;
        for (int a = 0; a < i.argument_count; ++a)
            if (is_rounded_down(i.arguments[a])) return true;
        return false;
    }

    /// Parentheses beyond C++'s need, where compilers ask for them: && inside ||, anything inside & ^ | << >>.
    constexpr int left_of(operation op, int precedence, node_id child) const {
        if (family_of(op) == family::bits) return 14;
        return op == operation::logical_or && list.nodes[child].op == operation::logical_and ? 5 : precedence;
    }

    constexpr void value(node_id at, int outer, bool skip_conversion = false, bool whole = false) {
        const instruction& i = list.nodes[at];
        if (named[at] && !whole) return name(at);
        if (i.op == operation::constant)
            return i.kind == kind::integer ? to.put_integer(i.integer) : to.put_real(i.number);
        if (i.op == operation::input || i.op == operation::scalar) return given(list.inputs[i.input]);
        if (i.op == operation::bound) return identifier(list.indices[static_cast<std::size_t>(i.integer)]);
        if (i.op == operation::to_real && skip_conversion && !is_rounded_down(i.arguments[0]))
            return value(i.arguments[0], outer);
        const bool implied = conversion_is_implied(i);
        const auto text = about(i.op).text;
        const int precedence = about(i.op).precedence;
        if (i.op == operation::load) {
            value(i.arguments[0], 99);
            return arguments(i, 1, false);
        }
        if (i.op == operation::recurrence) return recurrence(arguments_of(i));
        if (precedence == 0) {
            to.put(text);
            if (i.op == operation::extent) to.put('<'), to.put_integer(i.integer), to.put('>');
            if (i.op == operation::deposit)
                to.put('<'), given(list.inputs[i.input]),
                    to.put(i.integer == 1   ? ", pairs>"
                           : i.integer == 2 ? ", states>"
                                            : ", rows>");
            if (i.op == operation::part_cotangent) to.put('<'), to.put_integer(i.integer), to.put('>');
            if (i.op == operation::from_bits) to.put('<'), to.put(attune::name_of(element_in_bits(i))), to.put('>');
            return arguments(i, 0, implied);
        }
        const bool parentheses = precedence < outer;
        if (parentheses) to.put('(');
        if (i.argument_count == 0)
            to.put(text);
        else if (i.argument_count == 1)
            to.put(text), value(i.arguments[0], precedence, implied);
        else {
            if (i.op == operation::read_states)
                row(i.arguments[0]);
            else
                value(i.arguments[0], left_of(i.op, precedence, i.arguments[0]), implied);
            to.put(text);
            value(i.arguments[1], left_of(i.op, precedence, i.arguments[1]) + 1, implied);
        }
        if (parentheses) to.put(')');
    }

    constexpr void row(node_id at) { to.put("queries("), value(at, 0), to.put(")"); }

    /// As a step that is written in the order of its normal form.
    constexpr void recurrence(const recurrence_arguments& of) {
        const auto is = [this](node_id at, double number) { return is_constant(list.nodes[at], number); };
        const auto times = [&](node_id factor) { value(factor, 13), to.put(" * "); };
        to.put("recurrence(");
        if (!is(of.initial, 0)) value(of.initial, 0), to.put(", ");
        to.put("[](auto S) { return ");
        if (!is(of.decay, 1)) times(of.decay);
        to.put("S + t("), row(of.key), to.put(") * (");
        value(of.value, 12);
        if (!is(of.erase, 0)) {
            to.put(" - ");
            if (!is(of.erase, 1)) times(of.erase);
            to.put('('), row(of.read), to.put(" * ");
            if (is(of.decay, 1))
                to.put('S');
            else
                to.put('('), times(of.decay), to.put("S)");
            to.put(')');
        }
        to.put(')');
        if (of.has_second_pair())
            to.put(" + t("), row(of.second_key), to.put(") * ("), row(of.second_read), to.put(" * S)");
        to.put("; })");
    }

    constexpr void arguments(const instruction& i, int from, bool implied) {
        to.put('(');
        for (int a = from; a < i.argument_count; ++a) {
            if (a > from) to.put(", ");
            value(i.arguments[a], 0, implied);
        }
        to.put(')');
    }

    constexpr void given(const input_declaration& d) { is_given(d) ? to.put(d.name) : identifier(d.name); }

    constexpr void axis(const axis_declaration& a) {
        if (a.kind != axis_kind::free) return to.put(a.name);
        to.put(a.counts == axis_kind::free ? "axis<\"" : "blocks_of<\""), to.put(a.name), to.put('"');
        if (a.length != 0) to.put(", "), to.put_integer(a.length);
        to.put('>');
        if (a.counts != axis_kind::free) to.put('('), to.put(attune::name_of(a.counts)), to.put(')');
    }

    constexpr void declaration(const input_declaration& d) {
        identifier(d.name), to.put(d.is_scalar ? " = scalar<\"" : " = input<\""), to.put(d.name), to.put("\", ");
        if (d.element == element_type::any) to.put("attune::element_type::");
        to.put(attune::name_of(d.element)), to.put('>');
        if (d.is_scalar) return to.put('\n');
        for (int a = 0; a < d.rank; ++a) {
            to.put(a ? ", " : "(");
            axis(d.axes[a]);
        }
        to.put(")\n");
    }

    constexpr std::size_t all(char* buffer) {
        to = {buffer, 0};
        for (int at = 0; at < list.input_count; ++at)
            if (!is_given(list.inputs[at])) declaration(list.inputs[at]);
        for (int at = 0; at < list.index_count; ++at)
            identifier(list.indices[at]), to.put(" = bound_index<\""), to.put(list.indices[at]), to.put("\">\n");
        for (node_id at{}; at < list.node_count; ++at)
            if (named[at]) name(at), to.put(" = "), value(at, 0, false, true), to.put('\n');
        for (int at = 0; at < list.store_count; ++at)
            to.put("store("), value(list.stores[at].element, 0), to.put(", "), value(list.stores[at].value, 0),
                to.put(")\n");
        for (int at = 0; at < list.output_count; ++at) {
            if (at) to.put('\n');
            to.put(list.outputs[at].name), to.put(" = "), value(list.outputs[at].node, 0);
        }
        return to.size;
    }
};

constexpr std::size_t write_text(const ir_builder& list, char* buffer) {
    describer d{list};
    d.find_shared();
    return d.all(buffer);
}

}  // namespace attune::dsl::detail

#pragma GCC diagnostic pop
