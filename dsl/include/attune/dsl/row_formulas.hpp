#pragma once
#include <attune/dsl/embeddings.hpp>

/// Normalisation to length 1, and a short causal convolution whose state is the newest tokens: models apply them to a
/// token's rows before a recurrence reads these.
namespace attune::dsl {

namespace detail {
template <class X, class Eps> struct unit_channels {
    X x;
    Eps eps;
    template <class D> constexpr auto operator()(D d) const {
        constexpr bound_index_node<"unit_channel"> n{};
        return x(d) * rsqrt(sum(n, depth, x(n) * x(n)) + eps);
    }
};
}  // namespace detail

/// x / sqrt(sum of x^2 over the channels + eps): q and k of delta rules. x is an input (batch, head, query or key,
/// depth), or a function of the channel: `unit(k_new, 1e-6)`.
template <class X, operand Eps> constexpr auto unit(X x, Eps eps) {
    const auto of = channels(x);
    return channels(of.position, detail::unit_channels<decltype(channels(x)), Eps>{of, eps});
}
template <class... A>
    requires(sizeof...(A) != 2)
constexpr auto unit(const A&...) {
    static_assert(as_many_as_it_takes<sizeof...(A)>,
                  "attune: unit takes a row and what is added to its sum of squares: "
                  "unit(k_new, 1e-6)");
    return channels(q_idx, detail::no_channels{});
}

namespace detail {
/// The axes of an input of tokens (batch, query, channel); of anything else nothing.
template <class T> inline constexpr bool are_tokens_of_channels = false;
template <name Label, element_type Element, class Batch, class Query, class Channel>
inline constexpr bool are_tokens_of_channels<input_tensor<Label, Element, Batch, Query, Channel>> =
    axis_of<Query>.kind == axis_kind::query && kind_of_element(Element) == kind::real;
template <class T> inline constexpr int rank_of = -1;
template <name Label, element_type Element, class... Axes>
inline constexpr int rank_of<input_tensor<Label, Element, Axes...>> = sizeof...(Axes);

struct no_part {};

/// x at a place that may lie before the first token; there it is `before` at a place of its own, or 0.
template <class X, class Before, class Place, class PlaceBefore, class C>
constexpr auto token_at(X x, Before before, Place place, PlaceBefore place_before, C channel) {
    if constexpr (std::is_same_v<Before, no_part>)
        return where(place >= 0, x(dsl::b, place, channel), 0.0);
    else
        return where(place >= 0, x(dsl::b, place, channel), before(dsl::b, place_before, channel));
}

template <class X, class Weight, class Bias, class Before> struct convolved {
    X x;
    Weight weight;
    Bias bias;
    Before before;
    template <class C> constexpr auto operator()(C channel) const {
        constexpr bound_index_node<"tap"> tap{};
        const auto made = sum(tap, extent<1>(weight),
                              weight(lift(channel), tap) * token_at(x, before, q_idx - (extent<1>(weight) - 1) + tap,
                                                                    q_idx + tap, lift(channel)));
        if constexpr (std::is_same_v<Bias, no_part>)
            return made;
        else
            return made + bias(lift(channel));
    }
};

template <class X, class Weight, class Bias, class Before>
constexpr auto convolution(X x, Weight weight, Bias bias, Before before) {
    constexpr bool good = are_tokens_of_channels<X> && rank_of<Weight> == 2 &&
                          (std::is_same_v<Bias, no_part> || rank_of<Bias> == 1) &&
                          (std::is_same_v<Before, no_part> || rank_of<Before> == 3);
    if constexpr (!good) {
        static_assert(good,
                      "attune: causal_convolution takes tokens (batch, query, channels), weights (channels, taps), "
                      "and if need be a bias (channels) and the tokens before (batch, taps - 1, channels)");
        return channels(q_idx, no_channels{});
    } else
        return channels(q_idx, convolved<X, Weight, Bias, Before>{x, weight, bias, before});
}
}  // namespace detail

/// bias(c) + the sum over the taps j of weight(c, j) times the token taps - 1 - j back, as a function of the channel;
/// the last tap meets the token itself. Before the first token stand the rows of `before`, the oldest first, or zeros.
/// The bias may be left out: `silu(causal_convolution(x, weight, x_before)(d_idx))`.
template <class X, class Weight> constexpr auto causal_convolution(X x, Weight weight) {
    return detail::convolution(x, weight, detail::no_part{}, detail::no_part{});
}
template <class X, class Weight, class Third> constexpr auto causal_convolution(X x, Weight weight, Third third) {
    if constexpr (detail::rank_of<Third> == 3)
        return detail::convolution(x, weight, detail::no_part{}, third);
    else
        return detail::convolution(x, weight, third, detail::no_part{});
}
template <class X, class Weight, class Bias, class Before>
constexpr auto causal_convolution(X x, Weight weight, Bias bias, Before before) {
    return detail::convolution(x, weight, bias, before);
}

/// Tokens of a length of their own, a number of the call: q_idx counts from 0 to it.
template <operand X, operand W, operand L> constexpr auto tokens(const X& x, const W& width, const L& length) {
    const auto usual = tokens(x, width);
    if constexpr (is_rejected<std::remove_const_t<decltype(usual)>> || is_rejected<L>)
        return rejected{};
    else if constexpr (kind_of<L> != kind::integer || uses_in<L> != 0) {
        static_assert(integer_kind<kind_of<L>> && free_of<uses_in<L>, ~0u>,
                      "attune: the number of tokens is one integer for the whole call, such as extent<1>(x)");
        return rejected{};
    } else
        return make<kind::tokens, operation::tokens>(as_real(lift(x)), width, length);
}

/// The last `count` tokens of x, the oldest first: the state of a convolution of count + 1 taps. Where x has fewer, the
/// newest ones of `before` (batch, count, channels) come first, or zeros.
template <class X, operand N, class Before = detail::no_part>
constexpr auto newest(X x, const N& count, Before before = {}) {
    constexpr bool good =
        detail::are_tokens_of_channels<X> && (std::is_same_v<Before, detail::no_part> || detail::rank_of<Before> == 3);
    if constexpr (!good) {
        static_assert(good,
                      "attune: newest takes tokens (batch, query, channels), how many, and if need be those before "
                      "(batch, count, channels)");
        return rejected{};
    } else {
        const auto number = lift(count);
        return tokens(detail::token_at(x, before, q_idx + (query_length - number), q_idx + query_length, d_idx),
                      extent<2>(x), number);
    }
}

}  // namespace attune::dsl
