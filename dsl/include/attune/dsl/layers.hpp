#pragma once
#include <attune/dsl/aliases.hpp>
#include <attune/dsl/embeddings.hpp>
#include <attune/dsl/sequences.hpp>

/// Whole layers: linear projections, heads split and merged, dropout, layer normalisation. All are formulas over sums.
/// A sequence is a function of a position and a channel; it becomes queries, keys, values or tokens where it is used.
namespace attune::dsl {

// --- heads

/// A sequence whose channels are split into heads, one after another; used as q, t(k) and v are. `at` returns the real
/// at (position, channel of head h, channels of a head).
template <class F, class Width, class Length, class Heads> struct heads_of {
    F at;
    Width width;
    Length length;
    Heads number;
};
template <class T> inline constexpr bool is_heads = false;
template <class F, class W, class L, class N> inline constexpr bool is_heads<heads_of<F, W, L, N>> = true;

namespace detail {
template <bool Only, class F> struct head_at {
    F at;
    template <class P, class C> constexpr auto operator()(P position, C channel, auto size) const {
        if constexpr (Only)
            return at(position, channel);
        else
            return at(position, dsl::h * size + channel);
    }
};
template <class F, class W, class Bias> struct projected_head_at {
    F x;
    W w;
    Bias bias;
    template <class P, class C> constexpr auto operator()(P position, C channel, auto size) const {
        constexpr bound_index_node<"in"> in{};
        const auto width = same(bias.width_of(extent<0>(w)), size);
        return bias.added_to(sum(in, same(extent<1>(w), width), x(position, in, size) * w(lift(channel), in)), channel);
    }
};
template <class H> struct transposed_heads {
    H heads;
};
template <class T> inline constexpr bool transposed_first = false;
template <class T> inline constexpr bool split_first = false;
template <class T> inline constexpr bool added_by_residual = false;

template <bool Only, bool Stored, class F, class Width, class Length, class Heads>
constexpr auto split_sequence(sequence<Stored, F, Width, Length> x, Heads number) {
    return heads_of<head_at<Only, F>, Width, Length, Heads>{{x.at}, x.width, x.length, number};
}
template <bool Only, class S, class Heads> constexpr auto heads_of_sequence(S s, Heads number) {
    const auto x = sequence_of(s);
    if constexpr (is_rejected<std::remove_const_t<decltype(x)>> || is_rejected<Heads>)
        return rejected{};
    else if constexpr (!a_number_of_the_call<Heads>) {
        static_assert(a_number_of_the_call<Heads>,
                      "attune: split_heads(x, number): the number of heads is one integer for the whole call, a "
                      "literal or scalar<\"heads\", i32>");
        return rejected{};
    } else
        return split_sequence<Only>(x, number);
}
}  // namespace detail

/// The channels split into `number` heads, a number of the call: (batch, length, heads * depth) -> (batch, head,
/// length, depth).
template <class S, operand N> constexpr auto split_heads(S s, N number) {
    return detail::heads_of_sequence<false>(s, lift(number));
}
template <class... A>
    requires(sizeof...(A) != 2)
constexpr auto split_heads(const A&...) {
    static_assert(as_many_as_it_takes<sizeof...(A)>,
                  "attune: split_heads takes a sequence and the number of heads: split_heads(linear(x, w), 12)");
    return rejected{};
}
/// All channels as one head.
template <class S> constexpr auto one_head(S s) {
    return detail::heads_of_sequence<true>(s, constant<kind::integer>{1});
}

/// One projection (depth, depth) that all heads share.
template <class F, class Width, class Length, class N, class W>
constexpr auto linear(heads_of<F, Width, Length, N> x, W w) {
    return heads_of<detail::projected_head_at<F, W, detail::no_bias>, Width, Length, N>{
        {x.at, w, {}}, x.width, x.length, x.number};
}
template <class F, class Width, class Length, class N, class W, class B>
constexpr auto linear(heads_of<F, Width, Length, N> x, W w, B bias) {
    return heads_of<detail::projected_head_at<F, W, detail::with_bias<B>>, Width, Length, N>{
        {x.at, w, {bias}}, x.width, x.length, x.number};
}

// Norms and rotations: `rotary_half(rms_norm(split_heads(linear(x, w_q), 32), gain, 1e-6), cos, sin)`.
namespace detail {
template <class F, class Gain, class Eps> struct normed_head_at {
    F at;
    Gain gain;
    Eps eps;
    template <class P, class C, class Size> constexpr auto operator()(P position, C channel, Size size) const {
        constexpr bound_index_node<"channel"> n{};
        const auto x = at(position, n, size);
        return at(position, channel, size) * rsqrt(sum(n, size, x * x) / size + eps) * gain(channel);
    }
};
template <class Size>
inline constexpr bool counts_queries_and_keys = std::is_same_v<Size, index_node<operation::depth>>;
/// Queries stand at the last positions: the last query is where the last key is.
template <class Pairing, class F, class Cos, class Sin> struct rotated_head_at {
    F at;
    Cos cos;
    Sin sin;
    template <class P, class C, class Size> constexpr auto operator()(P position, C channel, Size size) const {
        if constexpr (!counts_queries_and_keys<Size>) {
            static_assert(counts_queries_and_keys<Size>,
                          "attune: rotary_half and rotary_interleaved turn projected queries and keys; values stay as "
                          "they are");
            return rejected{};
        } else {
            const auto of = channels(position, [=, *this](auto d) { return at(position, d, size); });
            const auto place = usual_position(of);
            return rotated<Pairing, decltype(of), Cos, Sin, decltype(place)>{of, cos, sin, place}(channel);
        }
    }
};
}  // namespace detail

/// Heads (batch, head, length, depth) over the root of the mean of their squares: x / sqrt(mean(x^2) + eps) *
/// gain(channel), as of q and k. The gain is an input (depth) or a function of the channel, eps a real.
template <class F, class Width, class Length, class Heads, class Gain, operand Eps>
constexpr auto rms_norm(heads_of<F, Width, Length, Heads> x, Gain gain, Eps eps) {
    return heads_of<detail::normed_head_at<F, Gain, Eps>, Width, Length, Heads>{
        {x.at, gain, eps}, x.width, x.length, x.number};
}

/// Rotary embedding of projected queries and keys, as of q and k: cos and sin are inputs (position, depth / 2). The
/// last query stands where the last key does. Values are refused.
template <class F, class Width, class Length, class Heads, class Cos, class Sin>
constexpr auto rotary_half(heads_of<F, Width, Length, Heads> x, Cos cos, Sin sin) {
    return heads_of<detail::rotated_head_at<detail::halves, F, Cos, Sin>, Width, Length, Heads>{
        {x.at, cos, sin}, x.width, x.length, x.number};
}
template <class F, class Width, class Length, class Heads, class Cos, class Sin>
constexpr auto rotary_interleaved(heads_of<F, Width, Length, Heads> x, Cos cos, Sin sin) {
    return heads_of<detail::rotated_head_at<detail::neighbours, F, Cos, Sin>, Width, Length, Heads>{
        {x.at, cos, sin}, x.width, x.length, x.number};
}

template <class H>
    requires is_heads<H>
constexpr auto t(H x) {
    return detail::transposed_heads<H>{x};
}
template <class Q, class K>
    requires is_heads<Q>
constexpr auto operator*(Q x, detail::transposed_heads<K> y) {
    return queries(x.at(q_idx, d_idx, depth), x.length, x.number, x.width / x.number) *
           t(keys(y.heads.at(kv_idx, d_idx, depth), y.heads.length, y.heads.number, y.heads.width / y.heads.number));
}
template <class Q, class K>
    requires is_rejected<Q>
constexpr auto operator*(Q, detail::transposed_heads<K>) {
    return rejected{};
}
template <class Q, class K>
    requires is_heads<Q> && is_heads<K>
constexpr auto operator*(Q, K) {
    static_assert(detail::transposed_first<K>,
                  "attune: queries and keys are multiplied as q * t(k); two tensors of heads are multiplied here");
    return rejected{};
}
template <class W, class V>
    requires(expression<W> && is_sequence<V>)
constexpr auto operator*(W, V) {
    static_assert(detail::split_first<V>,
                  "attune: weights * values: the values are a sequence whose heads are not split; write "
                  "split_heads(values, number) or one_head(values)");
    return rejected{};
}
template <expression W, class V>
    requires is_heads<V>
constexpr auto operator*(W weights, V x) {
    return weights * values(x.at(kv_idx, d_idx, value_depth), x.length, x.number, x.width / x.number);
}

/// (batch, head, query, value depth) -> (batch, query, heads * value_depth)
template <class O> constexpr auto merge_heads(O output) {
    if constexpr (is_rejected<O>)
        return rejected{};
    else if constexpr (kind_of<O> != kind::output) {
        static_assert(output_kind<kind_of<O>>, "attune: merge_heads takes an output, such as softmax(scores) * v");
        return rejected{};
    } else
        return detail::make_sequence<true>(detail::merged_at<O>{output}, heads * value_depth, query_length);
}

// --- element by element

namespace detail {
template <class F, class G> struct mapped_at {
    F at;
    G function;
    template <class P, class C> constexpr auto operator()(P position, C channel) const {
        return function(at(position, channel));
    }
};
template <class A, class B> struct added_at {
    A x;
    B y;
    template <class P, class C> constexpr auto operator()(P position, C channel) const {
        return x(position, channel) + y(position, channel);
    }
};
template <class X, class Gain, class Shift, class Width, class Eps> struct normal_at {
    X x;
    Gain gain;
    Shift shift;
    Width width;
    Eps eps;
    template <class P, class C> constexpr auto operator()(P position, C channel) const {
        constexpr bound_index_node<"in"> in{};
        constexpr bound_index_node<"across"> across{};
        const auto mean = sum(in, width, x(position, in)) / width;
        const auto off = x(position, across) - mean;
        return (x(position, channel) - mean) * rsqrt(sum(across, width, off * off) / width + eps) *
                   gain(lift(channel)) +
               shift(lift(channel));
    }
};
}  // namespace detail

template <class X, class Y>
    requires(is_sequence<X> || is_sequence<Y>)
constexpr auto operator+(X, Y) {
    static_assert(detail::added_by_residual<X>,
                  "attune: sequences are added by residual(x, y), and numbers to their elements by apply(x, [](auto e) "
                  "{ return e + 1.0; })");
    return rejected{};
}

/// A function of every element: apply(x, [](auto e) { return max(e, 0.0); }).
template <class X, class G> constexpr auto apply(X x, G function) {
    const auto s = sequence_of(x);
    if constexpr (is_rejected<std::remove_const_t<decltype(s)>>)
        return rejected{};
    else
        return detail::make_sequence<false>(detail::mapped_at<decltype(s.at), G>{s.at, function}, s.width, s.length);
}

/// x + y, element by element: a residual connection.
template <class X, class Y> constexpr auto residual(X x, Y y) {
    const auto one = sequence_of(x);
    const auto other = sequence_of(y);
    if constexpr (is_rejected<std::remove_const_t<decltype(one)>> || is_rejected<std::remove_const_t<decltype(other)>>)
        return rejected{};
    else
        return detail::make_sequence<false>(detail::added_at<decltype(one.at), decltype(other.at)>{one.at, other.at},
                                            same(other.width, one.width), same(other.length, one.length));
}

/// x (1 + erf(x / sqrt(2))) / 2, element by element. (Hendrycks, Gimpel 2016)
template <class X>
    requires(!detail::argument_of_gelu<X>)
constexpr auto gelu(X x) {
    return apply(x, [](auto e) { return e * 0.5 * (1.0 + erf(e * 0.7071067811865476)); });
}

/// (x - mean) / sqrt(variance + eps) * gain + shift, mean and variance over the channels of a position. (Ba, Kiros,
/// Hinton 2016)
template <class X, class Gain, class Shift, operand Eps>
constexpr auto layer_norm(X x, Gain gain, Shift shift, Eps eps) {
    const auto s = detail::stored(x);
    if constexpr (is_rejected<std::remove_const_t<decltype(s)>>)
        return rejected{};
    else {
        const auto width = detail::as_wide_as(detail::as_wide_as(s.width, gain), shift);
        return detail::make_sequence<false>(
            detail::normal_at<decltype(s.at), Gain, Shift, std::remove_const_t<decltype(width)>, Eps>{s.at, gain, shift,
                                                                                                      width, eps},
            width, s.length);
    }
}
template <class... A>
    requires(sizeof...(A) != 4)
constexpr auto layer_norm(const A&...) {
    static_assert(as_many_as_it_takes<sizeof...(A)>,
                  "attune: layer_norm takes a sequence, its gain and shift over the channels, and what is added to the "
                  "variance: layer_norm(x, gain, shift, 1e-5)");
    return rejected{};
}

// --- dropout

/// keep(p, seed) with a literal seed of up to 64 bits, or with a scalar as its lower half.
template <operand P, operand S> constexpr auto keep(P p, S seed) {
    if constexpr (std::integral<S>) {
        const auto bits = static_cast<std::uint64_t>(seed);
        return keep(p, static_cast<std::int32_t>(static_cast<std::uint32_t>(bits)),
                    static_cast<std::int32_t>(static_cast<std::uint32_t>(bits >> 32)));
    } else
        return keep(p, seed, 0);
}

/// Weights, each dropped with probability p, the others scaled by 1 / (1 - p): dropout(softmax(s), 0.1, seed) * v.
/// keep(p, seed) says which are kept. Of p = 1 none is, and the result is 0.
template <expression W, operand P, operand... S>
    requires(sizeof...(S) == 1 || sizeof...(S) == 2)
constexpr auto dropout(W weights, P p, S... seed) {
    return where(keep(p, seed...), weights, 0.0) / detail::share_kept(p);
}

template <class... A>
    requires(sizeof...(A) < 3 || sizeof...(A) > 4)
constexpr auto dropout(const A&...) {
    static_assert(as_many_as_it_takes<sizeof...(A)>,
                  "attune: dropout takes weights, a probability and a seed: dropout(softmax(scores), 0.1, seed); in "
                  "evaluation leave it out");
    return rejected{};
}

}  // namespace attune::dsl
