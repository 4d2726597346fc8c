#pragma once
#include <attune/dsl/gradient.hpp>
#include <attune/dsl/sharding.hpp>
#include <attune/dsl/stores.hpp>
#include <attune/ir/builder.hpp>
#include <attune/ir/differentiate.hpp>
#include <attune/ir/outputs_problem.hpp>
#include <attune/ir/recurrence.hpp>
#include <attune/ir/returning_pairs.hpp>

#include <algorithm>
#include <bit>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // the lists of a graph are indexed by int

/// Graph to graph_ir: the one fold over the graph's type. See graph_ir.hpp for the result.
namespace attune::dsl::detail {

/// The rules that no operator can check alone: each bound index inside its sum, one product of queries and keys,
/// weights or nothing.
constexpr void judge(ir_builder& list) {
    node_table<std::uint32_t> open{}, closed{};  // bound indices of each node: free in it, and summed over within it
    node_table<std::uint32_t> products{};        // of queries and keys that it is made of, a bit each
    int all_products = 0;
    const auto count_products = [&](node_id scores) {
        list.contractions = std::max(list.contractions, std::popcount(products[scores]));
    };
    const auto name_in = [&](std::uint32_t bits) {
        return bits ? list.indices[std::countr_zero(bits)] : std::string_view{};
    };
    for (node_id at{}; at < list.node_count; ++at) {
        const instruction& i = list.nodes[at];
        for (int a = 0; a < i.argument_count; ++a)
            open[at] |= open[i.arguments[a]], closed[at] |= closed[i.arguments[a]],
                products[at] |= products[i.arguments[a]];
        if (i.op == operation::bound) open[at] = 1u << i.integer;
        if (family_of(i.op) == family::sums) {
            const std::uint32_t own = open[i.arguments[0]];
            if (closed[at] & own) list.bound_twice = name_in(own);
            open[at] &= ~own, closed[at] |= own;
        }
        for (int a = 1; i.op == operation::precomputed && a < i.argument_count; a += 2) {
            const std::uint32_t own = open[i.arguments[a]];
            if (closed[at] & own) list.bound_twice = name_in(own);
            closed[at] |= own;
        }
        if (i.op == operation::precomputed) open[at] &= ~closed[at];
        if (i.op == operation::precomputed || i.op == operation::queries || i.op == operation::keys ||
            i.op == operation::values || i.op == operation::tokens) {
            if (open[at]) list.unbound = name_in(open[at]);
            closed[at] = 0;  // a tensor: its sums are done
        }
        if (i.op == operation::contract) {
            products[at] |= 1u << all_products++;
            if (all_products == 32) return void(list.too_long = true);
        }
        if (i.argument_count > 0 && list.nodes[i.arguments[0]].kind == kind::scores && i.kind != kind::scores)
            count_products(i.arguments[0]);
        if (i.op == operation::where && i.kind == kind::weights) {
            const instruction& other = list.nodes[i.arguments[2]];
            list.weights_or_other = list.weights_or_other || other.op != operation::constant || other.number != 0;
        }
    }
    for (int at = 0; at < list.store_count; ++at)
        if (const auto bits = open[list.stores[at].element] | open[list.stores[at].value]) list.unbound = name_in(bits);
    judge_stores(list);
    judge_recurrences(list);
    for (int at = 0; at < list.output_count; ++at) {
        if (const auto bits = open[list.outputs[at].node]) list.unbound = name_in(bits);
        if (list.nodes[list.outputs[at].node].kind == kind::scores) count_products(list.outputs[at].node);
    }
}

template <class Graph> constexpr ir_builder enter_graph(const Graph& graph);

constexpr bool has_several_cores(const ir_builder& list) { return attention_cores(list.instructions()).count() > 1; }

/// Whether the graph has one softmax, and no log_sum_exp but of other scores: a softmax with a mask, and the
/// log_sum_exp of the scores before it.
constexpr bool has_another_log_sum_exp(const ir_builder& list) {
    const node_list nodes = list.instructions();
    const attention_cores cores(nodes);
    int softmaxes = 0, others = 0;
    for (int i = 0; i < cores.count(); ++i) softmaxes += cores[i].statistic >= 0;
    for (node_id n{}; n < list.node_count; ++n) {
        if (nodes[n].op != operation::log_sum_exp) continue;
        const int core = cores.of(n);
        if (core < 0 || cores[core].statistic >= 0) return false;
        ++others;
    }
    return softmaxes == 1 && others > 0;
}

/// The gradient's list, or the graph's own where that is at fault. `of_parts`: of some queries and some keys.
template <class Gradient> constexpr ir_builder differentiated(const Gradient& gradient, bool of_parts = false) {
    ir_builder of = enter_graph(gradient.graph);
    using graph = std::remove_cvref_t<decltype(gradient.graph)>;
    if constexpr (is_gradient<graph>) of.fault = gradient_fault::of_a_gradient;
    if constexpr (is_shard<graph>) of.fault = gradient_fault::of_a_shard;
    if (has_several_cores(of))
        of.fault = has_another_log_sum_exp(of) ? gradient_fault::no_log_sum_exp : gradient_fault::of_several_cores;
    if (of.store_count > 0) of.fault = gradient_fault::of_stores;
    if (of_parts && of.sound()) of = sharding(of).of_parts();
    return of.sound() ? differentiation(of).run(gradient.of, gradient.wrt) : of;
}

/// The shard's list, or the graph's own where that is at fault.
template <class Shard> constexpr ir_builder sharded(const Shard& shard) {
    using graph = std::remove_cvref_t<decltype(shard.graph)>;
    if constexpr (is_gradient<graph>) {
        return differentiated(shard.graph, true);
    } else {
        ir_builder of = enter_graph(shard.graph);
        if constexpr (is_shard<graph>) of.unshardable = shard_fault::of_a_shard;
        if (has_several_cores(of))
            of.unshardable = has_another_log_sum_exp(of) ? shard_fault::no_log_sum_exp : shard_fault::of_several_cores;
        if (of.store_count > 0) of.unshardable = shard_fault::of_stores;
        if (of.has_recurrences) of.unshardable = shard_fault::of_a_recurrence;
        return of.sound() ? sharding(of).run() : of;
    }
}

template <class Graph> constexpr ir_builder enter_graph(const Graph& graph) {
    ir_builder list;
    if constexpr (is_rejected<Graph>) {  // said already
    } else if constexpr (is_gradient<Graph>) {
        list = differentiated(graph);
    } else if constexpr (is_shard<Graph>) {
        list = sharded(graph);
    } else if constexpr (requires { graph.named; }) {
        hana::unpack(graph.named, [&](const auto&... named) {
            (list.add_output(named.label, enter(list, named.value), named.derivative, named.before), ...);
        });
        if constexpr (requires { graph.stores; })
            hana::unpack(graph.stores, [&](const auto&... each) {
                (list.add_store(enter(list, each.element), enter(list, each.value)), ...);
            });
    } else if constexpr (requires { graph.node(); }) {  // a sequence
        list.add_output("out", enter(list, graph.node()), "dout", "out_before");
    } else {
        list.add_output("out", enter(list, graph), "dout", "out_before");
    }
    for (int at = 0; at < list.output_count; ++at) {
        const std::string_view name = list.outputs[at].name;
        for (int other = 0; other < list.input_count; ++other)
            if (list.inputs[other].name == name) list.declared_twice = name;
        for (int other = 0; other < at; ++other)
            if (list.outputs[other].name == name) list.declared_twice = name;
    }
    for (int at = 0; at < list.input_count; ++at)
        if (list.inputs[at].name == kv_lengths_input::label) list.declared_twice = list.inputs[at].name;
    for (int at = 0; at < list.index_count; ++at)
        for (int other = 0; other < list.input_count; ++other)
            if (list.inputs[other].name == list.indices[at]) list.declared_twice = list.indices[at];
    if constexpr (!is_gradient<Graph> && !is_shard<Graph>) judge(list);  // made of what was judged
    return list;
}

/// A number of the call that neither an input's axis nor a computed tensor gives. The generators ask the same about
/// graphs that are no formula (kernel_inputs.cpp).
enum class unknown_number : std::uint8_t { none, keys, heads, queries };

constexpr unknown_number unknown_number_of(const ir_builder& list) {
    const auto has_axis = [&](axis_kind kind) {
        for (int at = 0; at < list.input_count; ++at)
            for (int axis = 0; !list.inputs[at].is_scalar && axis < list.inputs[at].rank; ++axis)
                if (list.inputs[at].axes[axis].kind == kind) return true;
        return false;
    };
    const auto uses = [&](operation op, int argument = 0) {
        for (int at = 0; at < list.node_count; ++at)
            if (list.nodes[at].op == op && list.nodes[at].argument_count >= argument) return true;
        return false;
    };
    const auto computed = [&](int argument) {
        return uses(operation::keys, argument) || uses(operation::values, argument);
    };
    using enum unknown_number;
    if (uses(operation::contract) && !has_axis(axis_kind::key) && !computed(2)) return keys;
    if (uses(operation::heads) && !has_axis(axis_kind::head) && !has_axis(axis_kind::key_head) && !computed(3) &&
        !uses(operation::queries, 3))
        return heads;
    if (uses(operation::query_length) && !has_axis(axis_kind::query) && !uses(operation::queries, 2)) return queries;
    return none;
}

/// FNV-1a over everything that decides what a kernel computes: nodes, constants, declarations and outputs.
constexpr std::uint64_t fingerprint_of(const ir_builder& list) {
    std::uint64_t hash = 14695981039346656037ull;
    const auto byte = [&](std::uint8_t x) { hash = (hash ^ x) * 1099511628211ull; };
    const auto word = [&](std::uint64_t x) {
        for (int i = 0; i < 8; ++i) byte(static_cast<std::uint8_t>(x >> (8 * i)));
    };
    const auto text = [&](std::string_view s) {
        for (char c : s) byte(static_cast<std::uint8_t>(c));
        byte(0);
    };
    for (node_id at{}; at < list.node_count; ++at) {
        const instruction& i = list.nodes[at];
        byte(static_cast<std::uint8_t>(i.op));
        byte(static_cast<std::uint8_t>(i.kind));
        for (int a = 0; a < i.argument_count; ++a)
            byte(static_cast<std::uint8_t>(i.arguments[a])), byte(static_cast<std::uint8_t>(i.arguments[a] >> 8));
        byte(static_cast<std::uint8_t>(i.input));
        if (i.op == operation::bound || i.op == operation::extent || i.op == operation::deposit ||
            i.op == operation::part_cotangent || i.op == operation::from_bits)
            byte(static_cast<std::uint8_t>(i.integer));
        if (i.op == operation::constant)
            word(i.kind == kind::integer ? static_cast<std::uint64_t>(i.integer)
                                         : std::bit_cast<std::uint64_t>(i.number));
    }
    for (int at = 0; at < list.input_count; ++at) {
        const input_declaration& d = list.inputs[at];
        text(d.name);
        byte(static_cast<std::uint8_t>(d.element));
        byte(d.is_scalar);
        for (int a = 0; a < d.rank; ++a) {
            byte(static_cast<std::uint8_t>(d.axes[a].kind)), text(d.axes[a].name);
            if (d.axes[a].length != 0)
                word(static_cast<std::uint64_t>(d.axes[a].length)), byte(static_cast<std::uint8_t>(d.axes[a].counts));
        }
    }
    for (int at = 0; at < list.output_count; ++at)
        text(list.outputs[at].name), word(static_cast<std::uint64_t>(list.outputs[at].node));
    for (int at = 0; at < list.store_count; ++at)
        word(static_cast<std::uint64_t>(list.stores[at].element)),
            word(static_cast<std::uint64_t>(list.stores[at].value));
    return hash;
}

// Echoed with the constant.
template <std::int64_t Constant> inline constexpr bool fits_in_32_bits = Constant == 0;

// Echoed with the name.
template <name... Repeated> inline constexpr bool declared_once = sizeof...(Repeated) == 0;

template <name... Index> inline constexpr bool stands_inside_its_sum = sizeof...(Index) == 0;
template <name... Index> inline constexpr bool bound_once = sizeof...(Index) == 0;
template <int Count> inline constexpr int products_of_queries_and_keys = Count;

// Echoed with what is at fault.
template <recurrence_fault Why> inline constexpr bool is_a_recurrence = Why == recurrence_fault::none;

/// One sentence for each reason.
template <recurrence_fault Why> constexpr bool can_step() {
    using enum recurrence_fault;
    static_assert(Why != another_form || is_a_recurrence<Why>,
                  "attune: a step adds one row of keys times values, and reads its state twice at most: decay * S + "
                  "t(k) * (values - e * (r * (decay * S))) + t(b) * (a * S); this one has more parts");
    static_assert(Why != beside_scores || is_a_recurrence<Why>,
                  "attune: a recurrence sees every earlier token; say in its step which tokens count");
    static_assert(Why != of_a_recurrence || is_a_recurrence<Why>,
                  "attune: a step is made of what another recurrence gives; write that one as an output of a graph of "
                  "its own, which is called before");
    return Why == none;
}

// Echoed when a graph stops too early.
template <kind Found>
inline constexpr bool ends_in_an_output = Found == kind::output || Found == kind::row || Found == kind::tokens;

template <const auto& Graph>
inline constexpr ir_builder built = [] {
    using graph = std::remove_cvref_t<decltype(Graph)>;
    if constexpr (expression<graph> && !is_rejected<graph>)
        static_assert(ends_in_an_output<kind_of<graph>>,
                      "attune: a variant must end in an output, such as softmax(scores) * v; this graph stops before");
    constexpr ir_builder list = enter_graph(Graph);
    if constexpr (constexpr auto repeated = list.declared_twice; !repeated.empty())
        static_assert(declared_once<name<repeated.size() + 1>(repeated)>,
                      "attune: one name stands for two things in this graph: inputs declared differently, an input and "
                      "an output or bound index, or the built-in kv_lengths; q, k and v are inputs, too");
    if constexpr (constexpr auto index = list.unbound; !index.empty())
        static_assert(stands_inside_its_sum<name<index.size() + 1>(index)>,
                      "attune: a bound index stands outside the sum, any, all or precomputed that runs over it");
    if constexpr (constexpr auto index = list.bound_twice; !index.empty())
        static_assert(
            bound_once<name<index.size() + 1>(index)>,
            "attune: a sum, an any or precomputed within another runs over the same bound index; give it an index of "
            "its own");
    static_assert(
        !list.too_long,
        "attune: a graph has at most 512 different operations, 32 inputs, 16 outputs, 16 bound indices and 16 stores");
    static_assert(!list.weights_or_other, "attune: weights are chosen as where(condition, weights, 0), nothing else");
    static_assert(products_of_queries_and_keys<list.contractions> <= 1,
                  "attune: a score has one product q * t(k); a further one is a sum over its channels: sum(n, "
                  "extent<3>(x), x(b, h, q_idx, n) * y(b, h, kv_idx, n))");
    static_assert(!list.fraction_cut_short,
                  "attune: x / y of integers rounds down, and here it becomes a real; write as_real(x) / y for the "
                  "fraction, or floor_div(x, y)");
    static_assert(fits_in_32_bits<list.too_large>, "attune: an integer constant does not fit in 32 bits");
    if constexpr (list.fault != gradient_fault::none) {
        [[maybe_unused]] constexpr bool said =
            has_a_gradient<list.fault, name<list.fault_name.size() + 1>(list.fault_name)>();
    }
    if constexpr (list.unstorable != store_fault::none) {
        [[maybe_unused]] constexpr bool said =
            can_store<list.unstorable, name<list.fault_name.size() + 1>(list.fault_name)>();
    }
    if constexpr (list.unsteppable != recurrence_fault::none) [[maybe_unused]]
        constexpr bool said = can_step<list.unsteppable>();
    if constexpr (list.unshardable != shard_fault::none) {
        [[maybe_unused]] constexpr bool said =
            has_a_shard<list.unshardable, name<list.fault_name.size() + 1>(list.fault_name)>();
    }
    constexpr unknown_number unknown = list.sound() ? unknown_number_of(list) : unknown_number::none;
    static_assert(unknown != unknown_number::keys,
                  "attune: no input has an axis that says how many keys there are; state it: keys(formula, length)");
    static_assert(unknown != unknown_number::heads,
                  "attune: no input has an axis that says how many heads there are; pass a tensor with the axis head");
    static_assert(unknown != unknown_number::queries,
                  "attune: no input has an axis that says how many queries there are; state it: queries(formula, "
                  "length)");
    constexpr bool returns = list.sound() && masked_pairs_return(list.instructions());
    static_assert(
        !returns,
        "attune: masked pairs would be seen again, as tanh (of softcap), exp, sigmoid, erf, atan, sign, and max "
        "with a number are finite at -infinity; mask last: softmax(mask(softcap(30, scores), causal))");
    return list;
}();

/// `built` cut to its size, so that a program holds no more than the list.
template <const auto& Graph> struct ir_storage {
    template <class T, int Count, std::size_t Room>
    static constexpr std::array<T, Count> first(const std::array<T, Room>& all) {
        std::array<T, Count> result{};
        for (int i = 0; i < Count; ++i) result[i] = all[i];
        return result;
    }
    static constexpr auto nodes = first<instruction, built<Graph>.node_count>(built<Graph>.nodes);
    static constexpr auto inputs = first<input_declaration, built<Graph>.input_count>(built<Graph>.inputs);
    static constexpr auto outputs = first<output_declaration, built<Graph>.output_count>(built<Graph>.outputs);
    static constexpr auto indices = first<std::string_view, built<Graph>.index_count>(built<Graph>.indices);
    static constexpr auto stores = first<store_declaration, built<Graph>.store_count>(built<Graph>.stores);
    static constexpr outputs_problem problem = outputs_problem_of(nodes, outputs);
    static_assert(problem != outputs_problem::too_many_cores, "attune: a graph has at most 8 softmaxes");
    static_assert(
        problem != outputs_problem::pairs_of_several_cores,
        "attune: scores, weights and their sums over queries or heads are written where there is one softmax; "
        "name them in a graph of their own");
    static_assert(problem != outputs_problem::scores_apart,
                  "attune: the graph writes scores that its other outputs are not made of; name them in different "
                  "graphs");
    static_assert(problem != outputs_problem::tokens_of_two_outputs,
                  "attune: tokens are made of two different outputs; name them in different graphs");
};

}  // namespace attune::dsl::detail

namespace attune::dsl {

/// Changes whenever the computation, an input's declaration or a constant does; kernels are linked by it.
template <const auto& Graph> inline constexpr std::uint64_t fingerprint = detail::fingerprint_of(detail::built<Graph>);

}  // namespace attune::dsl

#pragma GCC diagnostic pop
