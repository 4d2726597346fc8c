#pragma once
#include <attune/dsl/attention.hpp>

/// Sequences: functions of a position and a channel, and their linear projections.
namespace attune::dsl {

/// (batch, length, channel); `at` returns the real at (position, channel). `Stored`: reading it again computes nothing.
template <bool Stored, class F, class Width, class Length> struct sequence {
    F at;
    Width width;
    Length length;
    /// As a tensor of its own, computed once.
    constexpr auto node() const { return tokens(at(q_idx, d_idx), width); }
};
template <class T> inline constexpr bool is_sequence = false;
template <bool S, class F, class W, class L> inline constexpr bool is_sequence<sequence<S, F, W, L>> = true;

namespace detail {
template <bool Stored, class F, class W, class L> constexpr auto make_sequence(F at, W width, L length) {
    return sequence<Stored, F, W, L>{at, width, length};
}

template <class Tensor> struct element_at {
    Tensor tensor;
    template <class P, class C> constexpr auto operator()(P position, C channel) const {
        return tensor(dsl::b, position, lift(channel));
    }
};
template <class Output> struct merged_at {
    Output output;
    template <class P, class C> constexpr auto operator()(P position, C channel) const {
        return output(dsl::b, channel / value_depth, position, channel % value_depth);
    }
};

// Echoed with the number of axes that an input has.
template <int Axes> inline constexpr bool has_three_axes = Axes == 3;
template <int Axes> inline constexpr bool has_two_axes = Axes == 2;
template <class T> inline constexpr bool a_sequence = is_sequence<T>;

/// The axes of an input; -1 for anything else.
template <class T> inline constexpr int axes_of = -1;
template <class T>
    requires(operation_of<T> == operation::input)
inline constexpr int axes_of<T> = T::declaration.rank;
}  // namespace detail

/// An input (batch, position, query or key, channel) or tokens, as a sequence.
template <class X> constexpr auto sequence_of(X x) {
    if constexpr (is_sequence<X> || is_rejected<X>)
        return x;
    else if constexpr (operation_of<X> == operation::tokens)
        return detail::make_sequence<true>(detail::element_at<X>{x}, x.children.second, query_length);
    else if constexpr (operation_of<X> == operation::input) {
        if constexpr (X::declaration.rank == 3)
            return detail::make_sequence<true>(detail::element_at<X>{x}, extent<2>(x), extent<1>(x));
        else {
            static_assert(detail::has_three_axes<X::declaration.rank>,
                          "attune: a sequence is an input (batch, position, axis<\"model\">), position also query or "
                          "key; this has another number of axes");
            return rejected{};
        }
    } else {
        static_assert(detail::a_sequence<X>,
                      "attune: linear, layer_norm and split_heads take an input (batch, position, axis<\"model\">), "
                      "tokens, merge_heads(...) or one another's results");
        return rejected{};
    }
}

/// Tokens with a length that is not the number of queries.
template <class X, operand L> constexpr auto sequence_of(X tokens, L length) {
    const auto s = sequence_of(tokens);
    return detail::make_sequence<true>(s.at, s.width, length);
}

namespace detail {
/// A sequence that can be read any number of times without being computed again.
template <class F, class W, class L> constexpr auto stored(sequence<true, F, W, L> x) { return x; }
template <class F, class W, class L> constexpr auto stored(sequence<false, F, W, L> x) {
    return make_sequence<true>(element_at<decltype(x.node())>{x.node()}, x.width, x.length);
}
template <class X> constexpr auto stored(X x) {
    if constexpr (is_rejected<decltype(sequence_of(x))>)
        return rejected{};
    else
        return stored(sequence_of(x));
}

/// The width, which a table over the channels must have too.
template <class W, class T> constexpr auto as_wide_as(W width, T table) {
    if constexpr (operation_of<T> == operation::input)
        return same(width, extent<0>(table));
    else
        return width;
}

struct no_bias {
    template <class C> constexpr auto added_to(auto sum, C) const { return sum; }
    constexpr auto width_of(auto width) const { return width; }
};
template <class B> struct with_bias {
    B bias;
    template <class C> constexpr auto added_to(auto sum, C channel) const { return sum + bias(lift(channel)); }
    constexpr auto width_of(auto width) const { return as_wide_as(width, bias); }
};

template <class X, class Width, class W, class Bias> struct projected_at {
    X x;
    Width width;
    W w;
    Bias bias;
    template <class P, class C> constexpr auto operator()(P position, C channel) const {
        constexpr bound_index_node<"in"> in{};
        return bias.added_to(sum(in, same(extent<1>(w), width), x(position, in) * w(lift(channel), in)), channel);
    }
};

template <class X, class W, class Bias> constexpr auto projected(X x, W w, Bias bias) {
    const auto from = stored(x);
    if constexpr (is_rejected<std::remove_const_t<decltype(from)>> || is_rejected<W>)
        return rejected{};
    else if constexpr (axes_of<W> != 2) {
        static_assert(has_two_axes<axes_of<W>>,
                      "attune: the weights of linear are an input of two axes, (out, in) as PyTorch stores them: "
                      "input<\"w\", f32>(axis<\"out\">, axis<\"in\">)");
        return rejected{};
    } else
        return make_sequence<false>(
            projected_at<decltype(from.at), std::remove_const_t<decltype(from.width)>, W, Bias>{from.at, from.width, w,
                                                                                                bias},
            bias.width_of(extent<0>(w)), from.length);
}
}  // namespace detail

/// x w^T + bias: PyTorch's Linear, w (out, in), bias (out). x is an input (batch, position, in), tokens, or another
/// layer's result.
template <class X, class W> constexpr auto linear(X x, W w) { return detail::projected(x, w, detail::no_bias{}); }
template <class X, class W, class B> constexpr auto linear(X x, W w, B bias) {
    return detail::projected(x, w, detail::with_bias<B>{bias});
}
template <class... A>
    requires(sizeof...(A) != 2 && sizeof...(A) != 3)
constexpr auto linear(const A&...) {
    static_assert(as_many_as_it_takes<sizeof...(A)>,
                  "attune: linear takes a sequence and its weights, or a bias as well: linear(x, w, bias)");
    return rejected{};
}

namespace detail {
template <int I, int N> inline constexpr bool one_of_the_parts = 0 <= I && I < N;
template <int I, int N, class S> struct part_at {
    S s;
    template <class P, class C> constexpr auto operator()(P position, C channel) const {
        if constexpr (I == 0)
            return s.at(position, channel);
        else if constexpr (I == 1)
            return s.at(position, channel + s.width / N);
        else
            return s.at(position, channel + I * (s.width / N));
    }
};
}  // namespace detail

/// Part I of N equal parts of the channels: part<0, 3>, part<1, 3> and part<2, 3> of a fused projection are q, k and v.
template <int I, int N, class X> constexpr auto part(X x) {
    const auto s = sequence_of(x);
    using S = std::remove_const_t<decltype(s)>;
    if constexpr (is_rejected<S>)
        return rejected{};
    else if constexpr (I < 0 || I >= N) {
        static_assert(detail::one_of_the_parts<I, N>, "attune: part<i, n> is one of 0 .. n - 1");
        return rejected{};
    } else
        return detail::make_sequence<false>(detail::part_at<I, N, S>{s}, s.width / N, s.length);
}

}  // namespace attune::dsl
