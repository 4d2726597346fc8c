#pragma once
#include <attune/dsl/embeddings.hpp>

/// Rounding that a formula states: queries by row, keys and values by block, weights. Products of codes of eight bits
/// are integers where the CPU has an instruction for them.
namespace attune::dsl {

namespace detail {
template <class X> inline constexpr bool are_weights = false;
template <expression X> inline constexpr bool are_weights<X> = X::is == kind::weights;

/// A number in steps, as a code of eight bits.
template <class X, class Step> constexpr auto code_of(X x, Step step) {
    return as_real(clamp(as_integer(round(x / step)), -127, 127));
}

template <class X> struct quantized_channels {
    X x;
    template <class D> constexpr auto operator()(D d) const {
        constexpr bound_index_node<"each_channel"> n{};
        const auto step = max(largest(n, depth, abs(x(n))) / 127.0, 1.2e-38);
        return code_of(x(d), step) * step;
    }
};

inline constexpr bound_index_node<"each_query"> each_query{};
inline constexpr bound_index_node<"each_key"> each_key{};
inline constexpr bound_index_node<"each_channel"> each_channel{};
inline constexpr bound_index_node<"block_of_keys"> block_of_keys{};
inline constexpr bound_index_node<"key_of_block"> key_of_block{};

/// Keys or values as they are passed, at a key and a channel.
template <class Tensor> struct passed_rows {
    Tensor tensor;
    template <class N, class C> constexpr auto operator()(N n, C c) const { return tensor(dsl::b, dsl::h, n, c); }
    static constexpr auto width() {
        if constexpr (depth_axis<Tensor> == axis_kind::depth)
            return depth;
        else
            return value_depth;
    }
};

/// (b, h, channel): the mean of the keys in use.
template <class Rows> constexpr auto mean_of(Rows x) {
    const auto all = sum(each_key, key_length, where(each_key < kv_lengths(b), x(each_key, each_channel), 0.0));
    return precomputed(all / max(kv_lengths(b), 1), each_channel, Rows::width());
}
template <class Rows> struct rows_less_their_mean {
    Rows x;
    template <class N, class C> constexpr auto operator()(N n, C c) const {
        return x(n, c) - mean_of(x)(dsl::b, dsl::h, c);
    }
    static constexpr auto width() { return Rows::width(); }
};

/// Codes of rows with one step for `Keys` neighbouring ones; keys that are not in use do not widen it. All of it is
/// computed before the first score; the steps once more for each key, so that a pair needs no quotient. Products by
/// step are summed in integers if no step is below 1e-30.
template <int Keys, class Rows> struct quantized_blocks {
    Rows x;
    template <class D> constexpr auto operator()(D d) const {
        const auto blocks = (key_length + (Keys - 1)) / Keys;
        const auto own = block_of_keys * Keys + key_of_block;
        const auto of_key = largest(each_channel, Rows::width(), abs(x(min(own, key_length - 1), each_channel)));
        const auto of_keys =
            precomputed(where(own < kv_lengths(b), of_key, 0.0), block_of_keys, blocks, key_of_block, Keys);
        const auto of_block = largest(key_of_block, Keys, of_keys(dsl::b, dsl::h, block_of_keys, key_of_block));
        const auto step_of_block = precomputed(max(of_block / 127.0, 1e-30), block_of_keys, blocks);
        const auto step = precomputed(step_of_block(dsl::b, dsl::h, each_key / Keys), each_key, key_length);
        const auto code = precomputed(code_of(x(each_key, each_channel), step(dsl::b, dsl::h, each_key)), each_key,
                                      key_length, each_channel, Rows::width());
        return code(dsl::b, dsl::h, kv_idx, d) * step(dsl::b, dsl::h, kv_idx);
    }
};

template <class T> inline constexpr bool is_of_rows = false;
template <class Tensor> inline constexpr bool is_of_rows<passed_rows<Tensor>> = true;
template <class Rows> inline constexpr bool is_of_rows<rows_less_their_mean<Rows>> = true;

// Echoed with the tensor.
template <class Tensor> inline constexpr bool is_k_v_or_like_them = false;
template <name Label, element_type Element, class... Axes>
inline constexpr bool is_k_v_or_like_them<input_tensor<Label, Element, Axes...>> =
    kind_of_element(Element) == kind::real && length_axis<input_tensor<Label, Element, Axes...>> == axis_kind::key &&
    (depth_axis<input_tensor<Label, Element, Axes...>> == axis_kind::depth ||
     depth_axis<input_tensor<Label, Element, Axes...>> == axis_kind::value_depth);
template <class Tensor> inline constexpr bool is_k_or_like_it = false;
template <name Label, element_type Element, class... Axes>
inline constexpr bool is_k_or_like_it<input_tensor<Label, Element, Axes...>> =
    is_k_v_or_like_them<input_tensor<Label, Element, Axes...>> &&
    depth_axis<input_tensor<Label, Element, Axes...>> == axis_kind::depth;
template <class Tensor> inline constexpr bool is_q_or_like_it = false;
template <name Label, element_type Element, class... Axes>
inline constexpr bool is_q_or_like_it<input_tensor<Label, Element, Axes...>> =
    kind_of_element(Element) == kind::real && length_axis<input_tensor<Label, Element, Axes...>> == axis_kind::query &&
    depth_axis<input_tensor<Label, Element, Axes...>> == axis_kind::depth;
template <int Keys> inline constexpr bool is_a_number_of_keys = Keys > 0;
}  // namespace detail

/// A row's channels in codes of eight bits: the nearest multiple of step = largest |x| of the row / 127; of two equally
/// near multiples the even one. So no channel is off by more than half a step. `queries(quantized<i8>(q))` times keys
/// that are codes of eight bits are products of integers where the CPU has an instruction for them. Weights:
/// `quantized<u8>(softmax(scores)) * values(...)` lets kernels round each weight, times the factor that the channels of
/// its value share, to 1/255 of the largest such product in a block of keys; `quantized<i16>` to 1/32767. Kernels that
/// gain nothing from it do not round.
template <element_type Code, class X> constexpr auto quantized(X x) {
    if constexpr (is_rejected<X>)
        return rejected{};
    else if constexpr (detail::are_weights<X>) {
        static_assert(
            Code == u8 || Code == i16,
            "attune: quantized<u8>(weights) rounds weights to 255 steps, quantized<i16> to 32767; there are no "
            "others");
        if constexpr (Code == u8)
            return make<kind::weights, operation::in_u8>(x);
        else
            return make<kind::weights, operation::in_i16>(x);
    } else {
        static_assert(Code == i8, "attune: quantized<i8>(x) makes codes of q, k or another input; there are no others");
        const auto of = channels(x);
        return channels(of.position, detail::quantized_channels<decltype(channels(x))>{of});
    }
}

/// Keys or values in codes of eight bits, with one step for all channels of `Keys` neighbouring ones of a head, from
/// key 0 on: `keys(quantized<i8, 64>(k))`, `values(quantized<i8, 64>(v))`. A call makes the codes once, before the
/// first score. Of k, v, another input over the same axes, or smoothed(k).
template <element_type Code, int Keys, class X> constexpr auto quantized(X x) {
    if constexpr (is_rejected<X>)
        return rejected{};
    else if constexpr (!detail::is_a_number_of_keys<Keys>) {
        static_assert(detail::is_a_number_of_keys<Keys>,
                      "attune: quantized<i8, 64>(k): the second number counts the keys that share a step, 1 or more");
        return rejected{};
    } else if constexpr (Code != i8) {
        static_assert(Code == i8, "attune: quantized<i8, 64>(k) makes codes of eight bits; there are no others");
        return rejected{};
    } else if constexpr (detail::is_of_rows<X>)
        return channels(kv_idx, detail::quantized_blocks<Keys, X>{x});
    else if constexpr (!detail::is_k_v_or_like_them<X>) {
        static_assert(detail::is_k_v_or_like_them<X>,
                      "attune: quantized<i8, 64>(x) makes codes of k, v or another input of reals (batch, key_head, "
                      "key, depth or value_depth), or of smoothed(k)");
        return rejected{};
    } else
        return quantized<Code, Keys>(detail::passed_rows<X>{x});
}

/// Keys less the mean of the keys in use, channel by channel: their codes have smaller steps where all keys have a
/// large channel in common. All scores of a row lack the same number then, mean_score(q, k), which softmax does not
/// see; a log-sum-exp, a sink and unnormalised weights do. (SageAttention, Zhang et al. 2024)
template <class X> constexpr auto smoothed(X x) {
    if constexpr (is_rejected<X>)
        return rejected{};
    else if constexpr (!detail::is_k_or_like_it<X>) {
        static_assert(detail::is_k_or_like_it<X>,
                      "attune: smoothed(x) takes k or another input of reals (batch, key_head, key, depth)");
        return rejected{};
    } else
        return detail::rows_less_their_mean<detail::passed_rows<X>>{{x}};
}

/// One real for each (b, h, q_idx): the product of the query and the mean of the keys in use.
template <class Q, class K> constexpr auto mean_score(Q x, K y) {
    if constexpr (is_rejected<Q> || is_rejected<K>)
        return rejected{};
    else if constexpr (!detail::is_q_or_like_it<Q> || !detail::is_k_or_like_it<K>) {
        static_assert(detail::is_q_or_like_it<Q> && detail::is_k_or_like_it<K>,
                      "attune: mean_score(q, k) takes q and k, or inputs of reals over the same axes");
        return rejected{};
    } else {
        using namespace detail;
        const auto product = sum(each_channel, depth,
                                 x(b, h, each_query, each_channel) * mean_of(passed_rows<K>{y})(b, h, each_channel));
        return precomputed(product, each_query, query_length)(b, h, q_idx);
    }
}

}  // namespace attune::dsl
