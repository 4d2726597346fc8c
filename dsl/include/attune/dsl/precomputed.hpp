#pragma once
#include <attune/dsl/functions.hpp>

/// Tensors that a call computes before the first score: numbers of blocks, such as means of their keys, and choices of
/// the largest.
namespace attune::dsl {

namespace detail {
template <class... A> inline constexpr bool in_pairs_up_to_four = sizeof...(A) % 2 == 0 && sizeof...(A) <= 8;
template <class N, class E, class... Rest> constexpr bool each_index_has_an_extent() {
    if constexpr (!a_bound_index<N> || !a_number_of_the_call<E>)
        return false;
    else if constexpr (sizeof...(Rest) == 0)
        return true;
    else
        return each_index_has_an_extent<Rest...>();
}
template <class... A> inline constexpr bool indices_with_extents = each_index_has_an_extent<A...>();
template <class T> inline constexpr bool precomputed_reals = operation_of<T> == operation::precomputed;
}  // namespace detail

/// A tensor (batch, head, n, ...) of a real over b, h and bound indices. Each index is followed by its extent, one
/// integer for the whole call. It is computed before the first score, each element once, and read at (b, h, ...):
///
///     mean_key = precomputed(sum(s, 64, k(b, h, n * 64 + s, c)) / 64, n, key_length / 64, c, depth)
///     mean_key(b, h, kv_idx / 64, 0)
template <operand X, operand N, operand E, operand... Rest>
constexpr auto precomputed(const X& x, const N& index, const E& extent, const Rest&... rest) {
    constexpr unsigned forbidden = use::query | use::key | use::channel | use::late;
    if constexpr (is_rejected<X> || is_rejected<N> || is_rejected<E> || (is_rejected<Rest> || ...))
        return rejected{};
    else if constexpr (!is_plain(kind_of<X>)) {
        static_assert(plain_number<kind_of<X>>,
                      "attune: precomputed(x, n, extent) takes a number; a tensor is read at indices, such as k(b, h, "
                      "n, c), and a condition is where(condition, 1, 0)");
        return rejected{};
    } else if constexpr (uses_in<X> & forbidden) {
        static_assert(free_of<uses_in<X>, forbidden>,
                      "attune: what is precomputed depends on b, h and bound indices alone; a position is an index of "
                      "its own: i = bound_index<\"i\">, then precomputed(x, i, query_length)");
        return rejected{};
    } else if constexpr (!detail::in_pairs_up_to_four<N, E, Rest...>) {
        static_assert(detail::in_pairs_up_to_four<N, E, Rest...>,
                      "attune: precomputed takes a number and one to four bound indices, each with its extent: "
                      "precomputed(x, n, blocks, c, depth)");
        return rejected{};
    } else if constexpr (!detail::indices_with_extents<N, E, Rest...>) {
        static_assert(detail::indices_with_extents<N, E, Rest...>,
                      "attune: the axes of what is precomputed are bound indices, each followed by its extent, one "
                      "integer for the whole call: precomputed(x, n, key_length / 64)");
        return rejected{};
    } else
        return make<kind::precomputed, operation::precomputed>(as_real(lift(x)), index, extent, rest...);
}

/// Conditions over the axes of a precomputed tensor: whether an element is among the `count` largest along the last
/// axis, as in `top_k(block_scores, 16)(b, h, q_idx / 64, kv_idx / 64)`. Of equal elements the first are chosen, NaN
/// counts as the largest number, and -infinity is never chosen. The count is one integer for the whole call.
template <expression T, operand K> constexpr auto top_k(const T& of, const K& count) {
    if constexpr (is_rejected<T> || is_rejected<K>)
        return rejected{};
    else if constexpr (!detail::precomputed_reals<T>) {
        static_assert(detail::precomputed_reals<T>,
                      "attune: top_k and top_p choose among precomputed reals: top_k(precomputed(x, n, blocks), 16)");
        return rejected{};
    } else if constexpr (!detail::a_number_of_the_call<K>) {
        static_assert(detail::a_number_of_the_call<K>,
                      "attune: top_k(x, count): the count is one integer for the whole call, such as 16 or a scalar; a "
                      "share is top_p(x, share)");
        return rejected{};
    } else
        return make<kind::precomputed, operation::top_k>(of, count);
}

/// The same of a share: the largest elements, in that order, as many as it takes for their sum to be `share` of the sum
/// of all. Negative elements and NaN count as 0 in both sums. The share is one number for the whole call.
template <expression T, operand P> constexpr auto top_p(const T& of, const P& share) {
    if constexpr (is_rejected<T> || is_rejected<P>)
        return rejected{};
    else if constexpr (!detail::precomputed_reals<T>) {
        static_assert(detail::precomputed_reals<T>,
                      "attune: top_k and top_p choose among precomputed reals: top_k(precomputed(x, n, blocks), 16)");
        return rejected{};
    } else if constexpr (!is_plain(kind_of<P>) || uses_in<P> != 0) {
        static_assert(is_plain(kind_of<P>) && free_of<uses_in<P>, ~0u>,
                      "attune: top_p(x, share): the share is one number for the whole call, such as 0.9 or a scalar");
        return rejected{};
    } else
        return make<kind::precomputed, operation::top_p>(of, as_real(lift(share)));
}

}  // namespace attune::dsl
