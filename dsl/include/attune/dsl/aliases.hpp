#pragma once
#include <attune/dsl/attention.hpp>

/// Names for common formulas. Text and fingerprint see only the formula.
namespace attune::dsl {

/// Query i sees keys 0 to i: the first query meets the first key (top-left alignment).
inline constexpr auto causal = q_idx >= kv_idx;

namespace detail {
/// A limit, or its replacement if it equals `none`, which is no limit. A literal is decided here, an expression in the
/// call.
template <operand L, class Limit> constexpr auto limit_unless(bool none, const L& limit, Limit unlimited) {
    return none ? static_cast<std::common_type_t<L, Limit>>(unlimited)
                : static_cast<std::common_type_t<L, Limit>>(limit);
}
template <expression C, expression L, class Limit>
constexpr auto limit_unless(const C& none, const L& limit, Limit unlimited) {
    return where(none, unlimited, limit);
}

/// 1 - p, the divisor of the weights that dropout keeps; if it keeps none, a number other than 0.
template <operand P> constexpr auto share_kept(P p) {
    if constexpr (expression<P>)
        return max(1.0 - as_real(p), 1e-8);
    else
        return 1.0 - as_real(lift(p < 1 ? p : P{0}));
}
}  // namespace detail

/// At most `left` keys back and `right` keys ahead, both inclusive; integers or run-time scalars. `window(w - 1, 0)`
/// has w keys. A side below 0 has no limit, as in FlashAttention: window(-1, -1) hides nothing. Its formula says 2^30
/// keys: a tensor has at most 2^31 - 1 elements, so that rows of two channels or more have no keys farther apart.
template <operand L, operand R> constexpr auto window(L left, R right) {
    constexpr int farther = 1 << 30;  // and a position beside it is still within 32 bits
    return q_idx - kv_idx <= detail::limit_unless(left < 0 || left > farther, left, farther) &&
           kv_idx - q_idx <= detail::limit_unless(right < 0 || right > farther, right, farther);
}
template <class... A>
    requires(sizeof...(A) != 2)
constexpr auto window(A...) {
    static_assert(as_many_as_it_takes<sizeof...(A)>,
                  "attune: a window has two sides, both inclusive: window(left, right); w keys up to the query's own "
                  "are window(w - 1, 0)");
    return rejected{};
}

namespace detail {
template <class N, class By> constexpr auto replace_q_idx(const N& n, const By& by) {
    if constexpr (std::is_same_v<N, index_node<operation::q_idx>>)
        return by;
    else if constexpr (requires { n.children; }) {
        return n.children.unpack([&by](const auto&... child) { return made_again<N>(replace_q_idx(child, by)...); });
    } else
        return n;
}
}  // namespace detail

/// The condition with q_idx shifted so that the last query meets the last key in use: the last of kv_lengths if a call
/// passes them, else of key_length. For decoding with a cache (bottom-right alignment).
template <expression C> constexpr auto bottom_right(C c) {
    if constexpr (is_rejected<C>)
        return rejected{};
    else if constexpr (C::is != kind::condition) {
        static_assert(condition<C::is>,
                      "attune: bottom_right(condition) shifts the queries of a condition, such as causal");
        return rejected{};
    } else
        return detail::replace_q_idx(c, q_idx + (kv_lengths(b) - query_length));
}
inline constexpr auto causal_bottom_right = bottom_right(causal);

/// c * tanh(s / c): scores bounded to (-c, c). Before the mask. A cap of 0 is none, as elsewhere. (Gemma 2)
template <operand C, operand S>
    requires involves_graph<C, S>
constexpr auto softcap(C c, S s) {
    if constexpr (is_rejected<C> || is_rejected<S>)
        return rejected{};
    else if constexpr (kind_of<C> == kind::scores || !expression<S>) {
        static_assert(plain_number<kind_of<C>> && expression<S>,
                      "attune: softcap(c, scores): the cap comes first, then what it bounds");
        return rejected{};
    } else {
        const auto cap = detail::limit_unless(c == 0, c, 1e30);  // beyond which tanh is the identity
        return cap * tanh(s / cap);
    }
}

/// all(n, extent, condition): the condition holds for every n of 0 .. extent - 1.
template <class I, class E, class C>
    requires involves_graph<I, E, C>
constexpr auto all(I n, E extent, C c) {
    return !any(n, extent, !c);
}

/// Bit n of x, 0 the lowest. A mask with eight keys in a byte is bit(packed(b, q_idx, kv_idx / 8), kv_idx % 8).
template <class X, class N>
    requires involves_graph<X, N>
constexpr auto bit(X x, N n) {
    return ((x >> n) & 1) != 0;
}

/// softmax with a one added to the denominator: the weights of a row may sum to less than 1.
template <expression S> constexpr auto softmax_plus_one(S s) { return softmax(s, 0.0); }

/// ALiBi's slope of head h, 2^(-8 (h + 1) / heads). (Press et al. 2022; heads a power of two, else pass the paper's
/// slopes as an input)
inline constexpr auto alibi_slope = exp2(-8.0 * (h + 1) / heads);

}  // namespace attune::dsl
