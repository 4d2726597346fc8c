#pragma once
#include <attune/dsl/attention.hpp>

/// Rotary embeddings, and normalisation over the channels: models apply them to q and k before these meet. They are
/// functions of a channel, so that one can be applied to another:
/// `queries(rotary_half(rms_norm(q, gain, 1e-6), cos, sin)) * t(keys(rotary_half(rms_norm(k, gain, 1e-6), cos, sin)))`.
namespace attune::dsl {

/// A tensor's formula as a function of its channel, at one position: `channels(q_idx, [](auto d) { return q(b, h,
/// q_idx, d); })`.
template <class Position, class F> struct channels_of {
    Position position;
    F at;
    template <expression D> constexpr auto operator()(D d) const { return at(d); }
};
template <expression Position, class F> constexpr auto channels(Position place, F at) {
    return channels_of<Position, F>{place, at};
}

namespace detail {
template <class Tensor, class Position> struct channel_of_tensor {
    Tensor tensor;
    Position position;
    template <class D> constexpr auto operator()(D d) const { return tensor(dsl::b, dsl::h, position, d); }
};

// The channel that is combined with channel d, its sign, and the number of the pair.
struct halves {
    template <class D> static constexpr auto partner(D d) { return where(d < depth / 2, d + depth / 2, d - depth / 2); }
    template <class D> static constexpr auto sign(D d) { return where(d < depth / 2, -1.0, 1.0); }
    template <class D> static constexpr auto pair(D d) { return where(d < depth / 2, d, d - depth / 2); }
};
struct neighbours {
    template <class D> static constexpr auto partner(D d) { return d ^ 1; }
    template <class D> static constexpr auto sign(D d) { return where(d % 2 == 0, -1.0, 1.0); }
    template <class D> static constexpr auto pair(D d) { return d / 2; }
};

template <class Pairing, class X, class Cos, class Sin, class Position> struct rotated {
    X x;
    Cos cos;
    Sin sin;
    Position position;
    template <class D> constexpr auto operator()(D d) const {
        return x(d) * cos(position, Pairing::pair(d)) +
               Pairing::sign(d) * x(Pairing::partner(d)) * sin(position, Pairing::pair(d));
    }
};
template <class Pairing, class X, class Cos, class Sin, class Position>
constexpr auto rotary(X x, Cos cos, Sin sin, Position position) {
    return channels(x.position, rotated<Pairing, X, Cos, Sin, Position>{x, cos, sin, position});
}

template <class X, class Gain, class Eps> struct normalised_channels {
    X x;
    Gain gain;
    Eps eps;
    template <class D> constexpr auto operator()(D d) const {
        constexpr bound_index_node<"channel"> n{};
        return x(d) * rsqrt(sum(n, depth, x(n) * x(n)) / depth + eps) * gain(d);
    }
};
}  // namespace detail

/// q, k or another input (batch, head, query or key, depth), channel by channel.
template <name Label, element_type Element, class... Axes>
constexpr auto channels(input_tensor<Label, Element, Axes...> x) {
    using tensor = input_tensor<Label, Element, Axes...>;
    using index = std::conditional_t<detail::length_axis<tensor> == axis_kind::query, index_node<operation::q_idx>,
                                     index_node<operation::kv_idx>>;
    return channels(index{}, detail::channel_of_tensor<tensor, index>{x, {}});
}
template <class Position, class F> constexpr auto channels(channels_of<Position, F> x) { return x; }

namespace detail {
/// The positions of the queries or keys of x where none are given: from 0 on. For queries that is right only if there
/// are as many as keys; a call with fewer is refused.
template <class X> constexpr auto usual_position(X x) {
    if constexpr (std::is_same_v<decltype(x.position), index_node<operation::q_idx>>)
        return q_idx + (same(query_length, key_length) - query_length);
    else
        return x.position;
}

struct no_channels {
    template <class D> constexpr rejected operator()(D) const { return {}; }
};
}  // namespace detail
template <class X> constexpr auto channels(X) {
    static_assert(detail::known_now<X>,
                  "attune: channels(x) takes q, k or another input (batch, head, query or key, depth), or a function: "
                  "channels(q_idx, [](auto d) { return q(b, h, q_idx, d); })");
    return channels(q_idx, detail::no_channels{});
}

/// A tensor computed from a function of its channel.
template <class Position, class F, class... Length>
constexpr auto queries(channels_of<Position, F> x, Length... length) {
    return queries(x(d_idx), length...);
}
template <class Position, class F, class... Length> constexpr auto keys(channels_of<Position, F> x, Length... length) {
    return keys(x(d_idx), length...);
}
template <class Position, class F, class... Length>
constexpr auto values(channels_of<Position, F> x, Length... length) {
    return values(x(d_idx), length...);
}

/// Rotary embedding that pairs channel d with d + depth / 2 (GPT-NeoX, Llama). cos and sin are read at (position,
/// pair), pair = 0 .. depth / 2 - 1: inputs (position, axis<"pair">), or functions of the two. The position is q's or
/// k's own unless it is given. Give q's if there may be fewer queries than keys: at the end of a cache it is q_idx +
/// (kv_lengths(b) - query_length).
template <class X, class Cos, class Sin, class Position>
constexpr auto rotary_half(X x, Cos cos, Sin sin, Position place) {
    return detail::rotary<detail::halves>(channels(x), cos, sin, place);
}
template <class X, class Cos, class Sin> constexpr auto rotary_half(X x, Cos cos, Sin sin) {
    return rotary_half(x, cos, sin, detail::usual_position(channels(x)));
}

/// Rotary embedding that pairs channel 2 i with 2 i + 1 (the paper, GPT-J). (Su et al. 2021)
template <class X, class Cos, class Sin, class Position>
constexpr auto rotary_interleaved(X x, Cos cos, Sin sin, Position place) {
    return detail::rotary<detail::neighbours>(channels(x), cos, sin, place);
}
template <class X, class Cos, class Sin> constexpr auto rotary_interleaved(X x, Cos cos, Sin sin) {
    return rotary_interleaved(x, cos, sin, detail::usual_position(channels(x)));
}

/// x / sqrt(mean of x^2 over the channels + eps) * gain(channel): the normalisation of queries and keys. The gain is an
/// input (depth) or a function of the channel, eps a real.
template <class X, class Gain, operand Eps> constexpr auto rms_norm(X x, Gain gain, Eps eps) {
    const auto of = channels(x);
    return channels(of.position, detail::normalised_channels<decltype(channels(x)), Gain, Eps>{of, gain, eps});
}

}  // namespace attune::dsl
