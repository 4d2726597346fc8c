#pragma once
#include <attune/dsl/attention.hpp>

/// A formula with PyTorch's meaning of `/` of integers and of negative indices. flex applies it to the results of its
/// functions.
namespace attune::dsl::detail {

template <class N> constexpr auto as_in_torch(const N& n);

/// A quotient where an integer is needed: an error, reported once, when the formula is complete.
template <operation User> struct quotient_misused {};
template <class T> inline constexpr bool is_misused = false;
template <operation User> inline constexpr bool is_misused<quotient_misused<User>> = true;
constexpr auto first_misused(const auto& first, const auto&... rest) {
    if constexpr (is_misused<std::remove_cvref_t<decltype(first)>>)
        return first;
    else
        return first_misused(rest...);
}

template <class N> inline constexpr bool is_integer_quotient = false;
template <class A, class B>
inline constexpr bool is_integer_quotient<node<kind::integer, operation::divide, A, B>> = true;

/// Integers that are never below 0: indices, lengths, and numbers made of them.
template <class N>
inline constexpr bool is_never_negative = operation_of<N> != operation::scalar && about(operation_of<N>).most == 0;
template <operation Op, class... C>
inline constexpr bool is_never_negative<node<kind::integer, Op, C...>> =
    sizeof...(C) == 0 || Op == operation::absolute || Op == operation::remainder || Op == operation::bit_and ||
    ((Op == operation::add || Op == operation::multiply || Op == operation::divide || Op == operation::shift_right ||
      Op == operation::minimum) &&
     (is_never_negative<C> && ...)) ||
    (Op == operation::maximum && (is_never_negative<C> || ...));
template <class A, class B> inline constexpr bool is_never_negative<floor_quotient<A, B>> = is_never_negative<A>;
template <> inline constexpr bool is_never_negative<constant<kind::integer>> = true;

/// A negative index of both positions counts from the end. Any other index is checked by the call.
template <int Axis, class T, class I> constexpr auto from_the_end(const T& tensor, const I& index) {
    if constexpr (is_never_negative<I> || (I::uses & (use::query | use::key)) != (use::query | use::key))
        return index;
    else
        return where(index < 0, index + extent<Axis>(tensor), index);
}

template <kind Is, class T, std::size_t... Axis, class... I>
constexpr auto element_in_torch(const T& tensor, std::index_sequence<Axis...>, const I&... i) {
    if constexpr (requires { T::declaration; })
        return make<Is, operation::load>(tensor, from_the_end<static_cast<int>(Axis)>(tensor, i)...);
    else
        return make<Is, operation::load>(tensor, i...);
}

/// The operation with the arguments `c`, some of which were integers and are reals now.
template <class N, class... C, class... Before> constexpr auto remade(const children_of<Before...>*, const C&... c) {
    if constexpr ((is_misused<C> || ...))
        return first_misused(c...);
    else if constexpr ((is_rejected<C> || ...))
        return rejected{};
    else if constexpr (is_integer_quotient<N>)
        return make<kind::real, operation::divide>(c...);
    else {
        constexpr bool turned = ((kind_of<C> != kind_of<Before>) || ...);
        constexpr family of = family_of(N::op);
        constexpr bool mixes = (of == family::arithmetic && N::op != operation::remainder) || of == family::function ||
                               of == family::function_of_two || N::op == operation::where;
        constexpr bool compares = of == family::comparison && !((kind_of<Before> == kind::integer) && ...);
        if constexpr (N::op == operation::to_real && turned)
            return (c, ...);
        else if constexpr (N::op == operation::load && !turned)
            return [](const auto& tensor, const auto&... i) {
                return element_in_torch<N::is>(tensor, std::make_index_sequence<sizeof...(i)>{}, i...);
            }(c...);
        else if constexpr (!turned || compares || of == family::attention)
            return made_again<N>(c...);
        else if constexpr (mixes)
            return make<N::is == kind::integer ? kind::real : N::is, N::op>(c...);
        else
            return quotient_misused<N::op>{};
    }
}

template <class N> constexpr auto as_in_torch(const N& n) {
    if constexpr (!expression<N>)
        return n;
    else if constexpr (!requires { n.children; } || N::is == kind::tensor || N::is == kind::transposed ||
                       N::op == operation::contract)
        return n;
    else
        return n.children.unpack([&]<class... C>(const C&... c) {
            return remade<N>(static_cast<const children_of<C...>*>(nullptr), as_in_torch(c)...);
        });
}

// Echoed with the operation that takes a quotient for an integer.
template <class T> inline constexpr bool has_no_integer_quotient = !is_misused<T>;

template <class N> constexpr auto meant_in_torch(const N& n) {
    const auto meant = as_in_torch(n);
    if constexpr (is_misused<std::remove_const_t<decltype(meant)>>) {
        static_assert(has_no_integer_quotient<std::remove_const_t<decltype(meant)>>,
                      "attune: in flex x / y of integers is a real, as in PyTorch; an index, a comparison of integers "
                      "and their arithmetic take none: write floor_div(x, y) for x // y");
        return rejected{};
    } else
        return meant;
}

}  // namespace attune::dsl::detail
