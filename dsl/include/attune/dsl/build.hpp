#pragma once
#include <attune/dsl/attention.hpp>

#include <bit>

/// Graph to listing: the one fold over the graph's type. See listing.hpp for the result.
namespace attune::dsl::detail {

inline constexpr int max_nodes = 512, max_inputs = 32, max_outputs = 8;

/// A listing under construction; nodes that are equal are entered once.
struct listing_builder {
    std::array<instruction, max_nodes> nodes{};
    std::array<input_declaration, max_inputs> inputs{};
    std::array<output_declaration, max_outputs> outputs{};
    int node_count{}, input_count{}, output_count{};
    std::string_view declared_twice{};  ///< name that stands for two things; empty in a valid graph

    std::int64_t too_large{};            ///< an integer constant beyond i32; 0 in a valid graph

    constexpr std::int16_t add(const instruction& i) {
        for (int at = 0; at < node_count; ++at)
            if (nodes[at].op == i.op && nodes[at].arguments[1] == i.arguments[1] && nodes[at] == i) return static_cast<std::int16_t>(at);  // cheap tests first
        nodes[node_count] = i;
        return static_cast<std::int16_t>(node_count++);
    }
    constexpr std::int16_t add_input(const input_declaration& d) {
        for (int at = 0; at < input_count; ++at) {
            if (inputs[at] == d) return static_cast<std::int16_t>(at);
            if (inputs[at].name == d.name) declared_twice = d.name;
        }
        inputs[input_count] = d;
        return static_cast<std::int16_t>(input_count++);
    }
    constexpr std::int16_t as_real(std::int16_t at) {
        if (nodes[at].is != kind::integer) return at;
        if (nodes[at].op == operation::constant) return add({.op = operation::constant, .is = kind::real, .number = static_cast<double>(nodes[at].integer)});
        return add({.op = operation::to_real, .is = kind::real, .argument_count = 1, .arguments = {at}});
    }
};

/// Whether an operation computes in reals as soon as one of its numbers is real.
constexpr bool mixes(operation op) {
    return (op >= operation::negate && op <= operation::maximum) || op == operation::where ||
           (op >= operation::equal && op <= operation::greater_equal);
}

template <class N>
constexpr std::int16_t enter(listing_builder& list, const N& n) {
    if constexpr (requires { N::declaration; }) {  // input tensor or scalar
        const auto input = list.add_input(N::declaration);
        return list.add({.op = N::op, .is = N::is, .input = input});
    } else if constexpr (std::is_same_v<N, constant<kind::integer>>) {
        if (n.value != static_cast<std::int32_t>(n.value)) list.too_large = n.value;
        return list.add({.op = N::op, .is = N::is, .integer = n.value});
    } else if constexpr (std::is_same_v<N, constant<kind::real>>) {
        return list.add({.op = N::op, .is = N::is, .number = n.value});
    } else {
        instruction i{.op = N::op, .is = N::is};
        hana::unpack(n.children, [&](const auto&... child) { ((i.arguments[i.argument_count++] = enter(list, child)), ...); });
        if (mixes(i.op)) {
            bool real = i.is == kind::real || i.is == kind::scores;
            for (int a = 0; a < i.argument_count; ++a) {
                const kind k = list.nodes[i.arguments[a]].is;
                real = real || k == kind::real || k == kind::scores;
            }
            if (real)
                for (int a = 0; a < i.argument_count; ++a) i.arguments[a] = list.as_real(i.arguments[a]);
        }
        return list.add(i);
    }
}

// Echoed when a graph stops too early.
template <kind Found>
inline constexpr bool ends_in_an_output = Found == kind::output || Found == kind::row;

template <class Graph>
constexpr listing_builder enter_graph(const Graph& graph) {
    listing_builder list;
    if constexpr (is_rejected<Graph>) {  // said already
    } else if constexpr (requires { graph.named; }) {
        hana::unpack(graph.named, [&](const auto&... named) {
            ((list.outputs[list.output_count] = {named.label, enter(list, named.value)}, ++list.output_count), ...);
        });
    } else {
        static_assert(ends_in_an_output<Graph::is>, "attune: a variant must end in an output, such as softmax(scores) * v; this graph stops before");
        list.outputs[list.output_count++] = {"out", enter(list, graph)};
    }
    for (int at = 0; at < list.output_count; ++at) {
        const std::string_view name = list.outputs[at].name;
        for (int other = 0; other < list.input_count; ++other)
            if (list.inputs[other].name == name) list.declared_twice = name;
        for (int other = 0; other < at; ++other)
            if (list.outputs[other].name == name) list.declared_twice = name;
    }
    for (int at = 0; at < list.input_count; ++at)
        if (list.inputs[at].name == "kv_lengths") list.declared_twice = list.inputs[at].name;
    return list;
}

/// FNV-1a over everything that decides what a kernel computes: nodes, constants, declarations and outputs.
constexpr std::uint64_t fingerprint_of(const listing_builder& list) {
    std::uint64_t hash = 14695981039346656037ull;
    const auto byte = [&](std::uint8_t x) { hash = (hash ^ x) * 1099511628211ull; };
    const auto word = [&](std::uint64_t x) { for (int i = 0; i < 8; ++i) byte(static_cast<std::uint8_t>(x >> (8 * i))); };
    const auto text = [&](std::string_view s) { for (char c : s) byte(static_cast<std::uint8_t>(c)); byte(0); };
    for (int at = 0; at < list.node_count; ++at) {
        const instruction& i = list.nodes[at];
        byte(static_cast<std::uint8_t>(i.op));
        byte(static_cast<std::uint8_t>(i.is));
        for (int a = 0; a < i.argument_count; ++a) byte(static_cast<std::uint8_t>(i.arguments[a])), byte(static_cast<std::uint8_t>(i.arguments[a] >> 8));
        byte(static_cast<std::uint8_t>(i.input));
        if (i.op == operation::constant) word(i.is == kind::integer ? static_cast<std::uint64_t>(i.integer) : std::bit_cast<std::uint64_t>(i.number));
    }
    for (int at = 0; at < list.input_count; ++at) {
        const input_declaration& d = list.inputs[at];
        text(d.name);
        byte(static_cast<std::uint8_t>(d.element));
        byte(d.is_scalar);
        for (int a = 0; a < d.rank; ++a) byte(static_cast<std::uint8_t>(d.axes[a].is)), text(d.axes[a].name);
    }
    for (int at = 0; at < list.output_count; ++at) text(list.outputs[at].name), word(static_cast<std::uint64_t>(list.outputs[at].node));
    return hash;
}

// Echoed with the constant.
template <std::int64_t Constant> inline constexpr bool fits_in_32_bits = Constant == 0;

// Echoed with the name.
template <name... Repeated> inline constexpr bool declared_once = sizeof...(Repeated) == 0;

template <const auto& Graph>
inline constexpr listing_builder built = [] {
    constexpr listing_builder list = enter_graph(Graph);
    if constexpr (constexpr auto repeated = list.declared_twice; !repeated.empty())
        static_assert(declared_once<name<repeated.size() + 1>(repeated)>, "attune: one name stands for two things in this graph: inputs declared differently, an input and an output, or the built-in kv_lengths");
    static_assert(fits_in_32_bits<list.too_large>, "attune: an integer constant does not fit in 32 bits");
    return list;
}();

/// `built` cut to its size, so that a program holds no more than the list.
template <const auto& Graph>
struct listing_storage {
    template <class T, int Count, std::size_t Room>
    static constexpr std::array<T, Count> first(const std::array<T, Room>& all) {
        std::array<T, Count> result{};
        std::copy_n(all.begin(), Count, result.begin());
        return result;
    }
    static constexpr auto nodes = first<instruction, built<Graph>.node_count>(built<Graph>.nodes);
    static constexpr auto inputs = first<input_declaration, built<Graph>.input_count>(built<Graph>.inputs);
    static constexpr auto outputs = first<output_declaration, built<Graph>.output_count>(built<Graph>.outputs);
};

}  // namespace attune::dsl::detail

namespace attune::dsl {

/// Changes whenever the computation, an input's declaration or a constant does; kernels are linked by it.
template <const auto& Graph>
inline constexpr std::uint64_t fingerprint = detail::fingerprint_of(detail::built<Graph>);

}  // namespace attune::dsl
