#pragma once
#include <attune/dsl/functions.hpp>
#include <attune/dsl/precomputed.hpp>

/// The stages of attention, in the only order that the language allows: contraction, score modifications, mask,
/// softmax, weighted sum.
namespace attune::dsl {

/// The transpose of a tensor's last two axes: q * t(k).
template <expression T> constexpr auto t(const T& x) {
    if constexpr (is_rejected<T>)
        return rejected{};
    else if constexpr (T::is == kind::tensor)
        return make<kind::transposed, operation::transpose>(x);
    else if constexpr (T::is == kind::integer) {
        static_assert(tensor_kind<T::is>,
                      "attune: t(...) transposes a tensor, and this is an integer; a parameter or an index called k "
                      "hides the tensor, which is attune::dsl::k");
        return rejected{};
    } else {
        static_assert(tensor_kind<T::is>, "attune: t(...) transposes a tensor, such as k");
        return rejected{};
    }
}

namespace detail {
/// A tensor made of a formula, with its length if that is not q's or k's own.
template <operation Op, class X, class... Length> constexpr auto formed(const X& x, const Length&... length) {
    constexpr unsigned forbidden = use::late | (Op == operation::queries ? use::key : use::query);
    if constexpr (is_rejected<X> || (is_rejected<Length> || ...))
        return rejected{};
    else if constexpr (!is_plain(kind_of<X>)) {
        static_assert(plain_number<kind_of<X>>,
                      "attune: queries, keys and values form a tensor of a number; tensors are read at indices, such "
                      "as q(b, h, q_idx, d_idx)");
        return rejected{};
    } else if constexpr (kind_of<X> == kind::integer) {
        static_assert(!integer_kind<kind_of<X>>,
                      "attune: queries, keys and values form a tensor of reals; this is an integer, as_real(...) of it "
                      "is a real");
        return rejected{};
    } else if constexpr (uses_in<X> & forbidden) {
        static_assert(free_of<uses_in<X>, forbidden>,
                      "attune: queries depend on (b, h, q_idx, d_idx), keys and values on (b, h, kv_idx, d_idx); "
                      "this depends on something else");
        return rejected{};
    } else if constexpr (!(a_number_of_the_call<Length> && ...)) {
        static_assert((a_number_of_the_call<Length> && ...),
                      "attune: the length of a computed tensor, its heads and its depth are integers of the whole "
                      "call, such as extent<2>(cache)");
        return rejected{};
    } else
        return make<kind::tensor, Op>(x, length...);
}
}  // namespace detail

/// A tensor (batch, head, query, depth) computed from a real over b, h, q_idx and d_idx, used where q is: `queries(q(b,
/// h, q_idx, d_idx) * gain(d_idx)) * t(k)`. A length, one integer for the whole call, may follow and is then
/// query_length; heads and depth may follow it and are then the call's. Each element is computed once.
template <operand X> constexpr auto queries(const X& x) { return detail::formed<operation::queries>(x); }
template <operand X, operand... L>
    requires(sizeof...(L) == 1 || sizeof...(L) == 3)
constexpr auto queries(const X& x, const L&... numbers) {
    return detail::formed<operation::queries>(x, numbers...);
}
/// The same over b, h, kv_idx and d_idx, used where k is. It has query heads, and its length is key_length.
template <operand X> constexpr auto keys(const X& x) { return detail::formed<operation::keys>(x); }
template <operand X, operand... L>
    requires(sizeof...(L) == 1 || sizeof...(L) == 3)
constexpr auto keys(const X& x, const L&... numbers) {
    return detail::formed<operation::keys>(x, numbers...);
}
/// The same where v is.
template <operand X> constexpr auto values(const X& x) { return detail::formed<operation::values>(x); }
template <operand X, operand... L>
    requires(sizeof...(L) == 1 || sizeof...(L) == 3)
constexpr auto values(const X& x, const L&... numbers) {
    return detail::formed<operation::values>(x, numbers...);
}

/// Scores where the condition holds; probability exactly 0 elsewhere.
template <class S, class C>
    requires involves_graph<S, C>
constexpr auto mask(const S& s, const C& c) {
    constexpr kind x = kind_of<S>, y = kind_of<C>;
    if constexpr (is_rejected<S> || is_rejected<C>)
        return rejected{};
    else if constexpr (x == kind::weights || x == kind::output) {
        static_assert(scores_kind<x>, "attune: the mask comes before softmax: softmax(mask(scores, condition)) * v");
        return rejected{};
    } else if constexpr (x != kind::scores) {
        static_assert(scores_kind<x>,
                      "attune: mask(scores, condition): the first argument is not scores, such as q * t(k)");
        return rejected{};
    } else if constexpr (!a_condition_of_the_graph<C>) {
        static_assert(a_condition_of_the_graph<C>,
                      "attune: a bool of C++ is the same for every query and key; a condition compares indices, as in "
                      "q_idx >= kv_idx");
        return rejected{};
    } else if constexpr (y != kind::condition) {
        static_assert(
            condition<y>,
            "attune: mask(scores, condition): the second argument is not a condition; did you forget a comparison?");
        return rejected{};
    } else
        return detail::number_node<kind::scores, operation::mask, detail::uses_in_all<S, C>>(s, c);
}

template <class... A>
    requires(sizeof...(A) != 2 && involves_expression<A...>)
constexpr auto mask(const A&...) {
    static_assert(as_many_as_it_takes<sizeof...(A)>,
                  "attune: mask takes scores and one condition; conditions are joined with &&: mask(scores, causal && "
                  "window(255, 0))");
    return rejected{};
}

namespace detail {
/// softmax and log_sum_exp, with a sink or without.
template <kind Is, operation Op, class S, class... Sink> constexpr auto normalised(const S& s, const Sink&... sink) {
    constexpr unsigned forbidden = use::key | use::channel | use::late;
    if constexpr (is_rejected<S> || (is_rejected<Sink> || ...))
        return rejected{};
    else if constexpr (kind_of<S> == kind::weights) {
        static_assert(scores_kind<kind_of<S>>,
                      "attune: softmax of weights: the scores are normalised already; softmax is applied once");
        return rejected{};
    } else if constexpr (!scores_kind<kind_of<S>>) {
        static_assert(scores_kind<kind_of<S>>,
                      "attune: softmax(scores): the argument is not scores, such as q * t(k) * rsqrt(depth); "
                      "log_sum_exp takes the same");
        return rejected{};
    } else if constexpr (!(is_plain(kind_of<Sink>) && ...) || ((uses_in<Sink> & forbidden) | ... | 0)) {
        static_assert((is_plain(kind_of<Sink>) && ...) && free_of<(uses_in<Sink> | ... | 0u), forbidden>,
                      "attune: softmax(scores, sink): the sink is one number for each (b, h, q_idx), such as sinks(h)");
        return rejected{};
    } else
        return make<Is, Op>(s, as_real(lift(sink))...);
}

/// A function of scores or of weights.
template <kind Is, operation Op, class W> constexpr auto of_scores(const W& w) {
    if constexpr (is_rejected<W>)
        return rejected{};
    else if constexpr (W::is == kind::scores)
        return make<Is, Op>(w);
    else {
        static_assert(
            scores_kind<W::is>,
            "attune: unnormalized(scores) and row_maximum(scores): the argument is not scores, such as q * t(k)");
        return rejected{};
    }
}
template <kind Is, operation Op, class W> constexpr auto of_weights(const W& w) {
    if constexpr (is_rejected<W>)
        return rejected{};
    else if constexpr (W::is == kind::weights)
        return make<Is, Op>(w);
    else {
        static_assert(weights_kind<W::is>,
                      "attune: row_sum, sum_over_queries and mean_over_heads take weights, such as softmax(scores)");
        return rejected{};
    }
}
template <kind Is, operation Op, unsigned Forbidden, class X> constexpr auto of_number(const X& x) {
    if constexpr (is_rejected<X> || kind_of<X> == Is)
        return x;
    else if constexpr (!is_number(kind_of<X>) || kind_of<X> == kind::scores || kind_of<X> == kind::output) {
        static_assert(plain_number<kind_of<X>>, "attune: as_row and as_output take a number that has no keys");
        return rejected{};
    } else if constexpr (uses_in<X> & Forbidden) {
        static_assert(free_of<uses_in<X>, Forbidden>,
                      "attune: as_row takes a real of (b, h, q_idx), as_output one of (b, h, q_idx, d_idx); this "
                      "depends on something else");
        return rejected{};
    } else
        return make<Is, Op>(as_real(lift(x)));
}
}  // namespace detail

/// Scores normalised over the visible keys of a row; a row without visible keys is all 0. A sink, one real for each (b,
/// h, q_idx), is added to the denominator only, like one more key whose value is 0.
template <operand S> constexpr auto softmax(const S& s) {
    return detail::normalised<kind::weights, operation::softmax>(s);
}
template <class S, class N>
    requires involves_graph<S, N>
constexpr auto softmax(const S& s, const N& sink) {
    return detail::normalised<kind::weights, operation::softmax>(s, sink);
}

template <class... A>
    requires(sizeof...(A) != 1 && sizeof...(A) != 2 && involves_expression<A...>)
constexpr auto softmax(const A&...) {
    static_assert(as_many_as_it_takes<sizeof...(A)>, "attune: softmax takes scores, or scores and a sink");
    return rejected{};
}

/// The natural logarithm of the sum of the exponentials of a row's visible scores and its sink (LSE); -infinity if
/// there are none.
template <operand S> constexpr auto log_sum_exp(const S& s) {
    return detail::normalised<kind::row, operation::log_sum_exp>(s);
}
template <class S, class N>
    requires involves_graph<S, N>
constexpr auto log_sum_exp(const S& s, const N& sink) {
    return detail::normalised<kind::row, operation::log_sum_exp>(s, sink);
}

/// Scores as weights, not normalised: `unnormalized(mask(sigmoid(scores), causal)) * v`. A masked pair weighs 0.
template <expression S> constexpr auto unnormalized(const S& s) {
    return detail::of_scores<kind::weights, operation::unnormalized>(s);
}

/// The largest visible score of a row; -infinity if there is none.
template <expression S> constexpr auto row_maximum(const S& s) {
    return detail::of_scores<kind::row, operation::row_maximum>(s);
}
/// Weights summed over the keys.
template <expression W> constexpr auto row_sum(const W& w) {
    return detail::of_weights<kind::row, operation::row_sum>(w);
}
/// Weights summed over the queries: the weight that each key received. An output (batch, head, key).
template <expression W> constexpr auto sum_over_queries(const W& w) {
    return detail::of_weights<kind::column, operation::sum_over_queries>(w);
}
/// Weights averaged over the heads. An output (batch, query, key).
template <expression W> constexpr auto mean_over_heads(const W& w) {
    return detail::of_weights<kind::head_mean, operation::mean_over_heads>(w);
}

/// A real of (b, h, q_idx) as a row, one of (b, h, q_idx, d_idx) as an output. Combined with rows and outputs, reals
/// are converted without it.
template <operand X> constexpr auto as_row(const X& x) {
    return detail::of_number<kind::row, operation::as_row, use::key | use::channel | use::output>(x);
}
template <operand X> constexpr auto as_output(const X& x) {
    return detail::of_number<kind::output, operation::as_output, use::key>(x);
}

namespace detail {
template <class T> inline constexpr std::size_t read_rank = T::is == kind::tokens ? 3 : 4;
template <kind Is, class X, class... Indices>
inline constexpr std::size_t read_rank<node<Is, operation::precomputed, X, Indices...>> = 2 + sizeof...(Indices) / 2;
template <kind Is, class T, class K>
inline constexpr std::size_t read_rank<node<Is, operation::top_k, T, K>> = read_rank<T>;
template <kind Is, class T, class P>
inline constexpr std::size_t read_rank<node<Is, operation::top_p, T, P>> = read_rank<T>;

template <class B, class H, class Q, class... I> inline constexpr operation third_operation = operation_of<Q>;
// Echoed with what was found.
template <operation Found> inline constexpr bool is_own_query = Found == operation::q_idx;

template <class Node, class... I> constexpr auto element_of(const Node& of, const I&... i) {
    constexpr std::size_t rank = read_rank<Node>;
    if constexpr ((is_rejected<I> || ...))
        return rejected{};
    else if constexpr (Node::is == kind::precomputed && (sizeof...(I) != rank || !(integer_kind<kind_of<I>> && ...))) {
        static_assert(sizeof...(I) == rank && (integer_kind<kind_of<I>> && ...),
                      "attune: what is precomputed is read at (b, h, ...), an integer for each of its indices");
        return rejected{};
    } else if constexpr (sizeof...(I) != rank || !(integer_kind<kind_of<I>> && ...)) {
        static_assert(
            sizeof...(I) == rank && (integer_kind<kind_of<I>> && ...),
            "attune: tokens are read at (b, position, channel), an output at (b, head, q_idx, channel), all integers");
        return rejected{};
    } else if constexpr (Node::is == kind::output && !is_own_query<third_operation<I...>>) {
        static_assert(is_own_query<third_operation<I...>>,
                      "attune: an output is read at the query that it is of: out(b, head, q_idx, channel)");
        return rejected{};
    } else
        return make<chooses(Node::op) ? kind::condition : kind::real, operation::load>(of, i...);
}
}  // namespace detail

/// A tensor (batch, query, channel) of its own width, computed from a real over b, q_idx and d_idx: passed from one
/// attention of a model to the next. Read at (b, position, channel).
template <operand X, operand W> constexpr auto tokens(const X& x, const W& width) {
    constexpr unsigned forbidden = use::key | use::row | use::output;
    if constexpr (is_rejected<X> || is_rejected<W>)
        return rejected{};
    else if constexpr (!is_plain(kind_of<X>) || (uses_in<X> & forbidden)) {
        static_assert(is_plain(kind_of<X>) && free_of<uses_in<X>, forbidden>,
                      "attune: tokens depend on (b, q_idx, d_idx); an output is read at its elements, "
                      "as merge_heads does");
        return rejected{};
    } else if constexpr (!detail::a_number_of_the_call<W>) {
        static_assert(detail::a_number_of_the_call<W>,
                      "attune: the width of tokens is one integer for the whole call, such as extent<0>(w)");
        return rejected{};
    } else
        return make<kind::tokens, operation::tokens>(as_real(lift(x)), width);
}

/// The first of two numbers of the call that must be equal, such as the widths of two factors. A call where they differ
/// is refused.
template <operand A, operand B> constexpr auto same(const A& one, const B& other) {
    if constexpr (is_rejected<A> || is_rejected<B>)
        return rejected{};
    else if constexpr (std::is_same_v<A, B> && operation_of<A> == operation::extent)
        return one;
    else if constexpr (!detail::a_number_of_the_call<A> || !detail::a_number_of_the_call<B>) {
        static_assert(detail::a_number_of_the_call<A> && detail::a_number_of_the_call<B>,
                      "attune: same(a, b) takes two integers of the whole call, such as extent<1>(w) and extent<2>(x)");
        return rejected{};
    } else
        return make<kind::integer, operation::same>(one, other);
}

/// False with probability p, one draw for each (b, h, q_idx, kv_idx): Philox 4x32-10 (Salmon et al. 2011) with the
/// 64-bit seed as key, counter (kv_idx / 4, q_idx, h, b) and word kv_idx % 4; kept where the word is at least p * 2^32,
/// rounded. The same for every schedule, thread count and target.
template <operand P, operand S, operand U> constexpr auto keep(const P& p, const S& seed, const U& upper_half) {
    constexpr unsigned uses = uses_in<P> | uses_in<S> | uses_in<U>;
    if constexpr (is_rejected<P> || is_rejected<S> || is_rejected<U>)
        return rejected{};
    else if constexpr (!is_plain(kind_of<P>) || kind_of<S> != kind::integer || kind_of<U> != kind::integer ||
                       uses != 0) {
        static_assert(
            is_plain(kind_of<P>) && integer_kind<kind_of<S>> && integer_kind<kind_of<U>> && free_of<uses, ~0u>,
            "attune: keep(p, seed) takes a probability and an integer of the whole call, literals or scalars");
        return rejected{};
    } else
        return make<kind::condition, operation::keep>(as_real(lift(p)), seed, upper_half);
}

/// The draw of another (b, h, q_idx, kv_idx), for calls that have a part of the whole, as shards.
template <operand P, operand S, operand U, operand B, operand H, operand Q, operand K>
constexpr auto keep(const P& p, const S& seed, const U& upper_half, const B& batch_element, const H& query_head,
                    const Q& query_position, const K& key_position) {
    constexpr unsigned forbidden = use::channel | use::bound | use::late;
    constexpr unsigned uses = uses_in<B> | uses_in<H> | uses_in<Q> | uses_in<K>;
    const auto own = keep(p, seed, upper_half);
    if constexpr (is_rejected<std::remove_const_t<decltype(own)>> || is_rejected<B> || is_rejected<H> ||
                  is_rejected<Q> || is_rejected<K>)
        return rejected{};
    else if constexpr (kind_of<B> != kind::integer || kind_of<H> != kind::integer || kind_of<Q> != kind::integer ||
                       kind_of<K> != kind::integer || (uses & forbidden)) {
        static_assert(integer_kind<kind_of<B>> && integer_kind<kind_of<H>> && integer_kind<kind_of<Q>> &&
                          integer_kind<kind_of<K>> && free_of<uses, forbidden>,
                      "attune: keep(p, seed, upper half, b, h, q, k): what is drawn for is four integers of (b, h, "
                      "q_idx, kv_idx)");
        return rejected{};
    } else
        return make<kind::condition, operation::keep>(as_real(lift(p)), seed, upper_half, batch_element, query_head,
                                                      query_position, key_position);
}

/// Several named outputs of one graph. What they share is computed once.
template <class... Named> struct outputs_of {
    detail::hana::basic_tuple<Named...> named;
};

/// Echoed with the name and the kind found.
template <name Label, kind Found>
inline constexpr bool can_be_named =
    Found == kind::output || Found == kind::row || Found == kind::scores || Found == kind::weights ||
    Found == kind::column || Found == kind::head_mean || Found == kind::tokens || Found == kind::precomputed ||
    Found == kind::states || Found == kind::last_state;

template <class T> inline constexpr bool named_part_of_the_graph = false;
template <name Label, class Value> inline constexpr bool named_part_of_the_graph<named_output<Label, Value>> = true;

/// outputs(out = softmax(s) * v, lse = log_sum_exp(s), output<"weights"> = softmax(s))
template <name... Label, expression... Value>
    requires(sizeof...(Label) > 0)
constexpr auto outputs(named_output<Label, Value>... named) {
    if constexpr ((is_rejected<Value> || ...))
        return rejected{};
    else if constexpr (!(can_be_named<Label, Value::is> && ...)) {
        static_assert((can_be_named<Label, Value::is> && ...),
                      "attune: a named output is an output, a row, scores, weights, sum_over_queries(...), "
                      "mean_over_heads(...), precomputed(...) or last(states); numbers become one by as_row or "
                      "as_output");
        return rejected{};
    } else if constexpr ((chooses(operation_of<Value>) || ...)) {
        static_assert(!(chooses(operation_of<Value>) || ...),
                      "attune: a choice is no output; write it as reals: precomputed(where(choice(b, h, n), 1, 0), n, "
                      "blocks)");
        return rejected{};
    } else
        return outputs_of<named_output<Label, Value>...>{
            detail::hana::basic_tuple<named_output<Label, Value>...>{named...}};
}

/// store(...), which stores.hpp makes, or what it rejected.
template <class T> inline constexpr bool is_store = is_rejected<T>;

template <class... T>
    requires(!((named_part_of_the_graph<T> || is_store<T>) && ...) || sizeof...(T) == 0)
constexpr auto outputs(const T&...) {
    static_assert((named_part_of_the_graph<T> && ...) && sizeof...(T) > 0,
                  "attune: outputs have names and are parts of the graph: outputs(out = softmax(s) * v, lse = "
                  "log_sum_exp(s), output<\"weights\"> = softmax(s))");
    return rejected{};
}

}  // namespace attune::dsl
