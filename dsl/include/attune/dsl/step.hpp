#pragma once
#include <attune/dsl/embeddings.hpp>

/// The values of a recurrence's step: S, states of rank one, rows read from S, and their sums. They are kept as sums of
/// parts, so that a step has the normal form of ir/recurrence.hpp however it is written.
namespace attune::dsl::detail {

struct absent {};    ///< no part
struct unscaled {};  ///< times 1

/// factor (row (scale S)), added or subtracted.
template <bool Subtracted, class Row, class Scale, class Factor> struct state_read {
    static constexpr bool subtracted = Subtracted;
    Row row;
    Scale scale;
    Factor factor;
};

/// A row of values: a part that does not depend on S, and reads of S. `Tag` says whose S; void: nobody's.
template <class Tag, class Plain, class... Reads> struct step_row {
    using tag = Tag;
    static constexpr kind is = kind::state;
    static constexpr operation op = operation::read_states;
    static constexpr unsigned uses = 0;
    Plain plain;
    hana::basic_tuple<Reads...> reads;
};

/// t(key) row
template <class Key, class Row> struct rank_one {
    Key key;
    Row row;
};

/// scale S, and states of rank one.
template <class Tag, class Scale, class... Pairs> struct step_state {
    using tag = Tag;
    static constexpr kind is = kind::state;
    static constexpr operation op = operation::recurrence;
    static constexpr unsigned uses = 0;
    Scale scale;
    hana::basic_tuple<Pairs...> pairs;

    /// For `S = decay * S` and `S += ...`: each formula has a type of its own.
    template <class T>
        requires(!std::same_as<T, step_state>)
    constexpr step_state& operator=(const T&) {
        static_assert(known_now<T>,
                      "attune: a state does not change in place; a step returns the new one: return decay * S + t(k) * "
                      "value");
        return *this;
    }
    template <class... I> constexpr rejected operator()(const I&...) const {
        static_assert(known_now<step_state>,
                      "attune: a step reads a state whole, by a row: q * S; it has no elements there");
        return {};
    }
};

template <class T> inline constexpr bool is_step_row = false;
template <class Tag, class Plain, class... Reads>
inline constexpr bool is_step_row<step_row<Tag, Plain, Reads...>> = true;
template <class T> inline constexpr bool is_step_state = false;
template <class Tag, class Scale, class... Pairs>
inline constexpr bool is_step_state<step_state<Tag, Scale, Pairs...>> = true;
template <class T> inline constexpr bool is_transposed = kind_of<T> == kind::transposed;
template <class T> inline constexpr bool is_channels = false;
template <class Position, class F> inline constexpr bool is_channels<channels_of<Position, F>> = true;
template <class T> inline constexpr bool is_row_or_channels = is_channels<T> || kind_of<T> == kind::tensor;

// Echoed with what was found.
template <class Own, class Found> inline constexpr bool own_state = std::is_same_v<Own, Found>;
template <axis_kind Length, axis_kind Depth>
inline constexpr bool row_of_a_token = Length == axis_kind::query && Depth == axis_kind::depth;
template <kind Found> inline constexpr bool values_of_a_token = false;
template <axis_kind Length, axis_kind Depth>
inline constexpr bool values_over_query = Length == axis_kind::query && Depth == axis_kind::value_depth;

template <class T> inline constexpr bool is_a_tensor_of_states = false;
template <name Label, element_type Element, class... Axes>
inline constexpr bool is_a_tensor_of_states<input_tensor<Label, Element, Axes...>> =
    sizeof...(Axes) == 4 && (length_axis<input_tensor<Label, Element, Axes...>>) == axis_kind::depth &&
    depth_axis<input_tensor<Label, Element, Axes...>> == axis_kind::value_depth &&
    kind_of_element(Element) == kind::real;

/// Whose S two parts are of.
template <class A, class B> constexpr bool of_one_state() {
    using x = typename A::tag;
    using y = typename B::tag;
    constexpr bool same = std::is_void_v<x> || std::is_void_v<y> || std::is_same_v<x, y>;
    static_assert(same || own_state<x, y>, "attune: a step reads its own state only");
    return same;
}
template <class A, class B>
using joined_tag = std::conditional_t<std::is_void_v<typename A::tag>, typename B::tag, typename A::tag>;

template <class... A, class... B>
constexpr hana::basic_tuple<A..., B...> both(const hana::basic_tuple<A...>& a, const hana::basic_tuple<B...>& b) {
    return hana::unpack(a, [&](const auto&... x) {
        return hana::unpack(b, [&](const auto&... y) { return hana::basic_tuple<A..., B...>{x..., y...}; });
    });
}
template <class... A, class F> constexpr auto each_of(const hana::basic_tuple<A...>& all, const F& f) {
    return hana::unpack(
        all, [&](const auto&... x) { return hana::basic_tuple<std::remove_cvref_t<decltype(f(x))>...>{f(x)...}; });
}
template <class Tag, class Plain, class... Reads>
constexpr auto make_row(const Plain& plain, const hana::basic_tuple<Reads...>& reads) {
    return step_row<Tag, Plain, Reads...>{plain, reads};
}
template <class Tag, class Scale, class... Pairs>
constexpr auto make_state(const Scale& scale, const hana::basic_tuple<Pairs...>& pairs) {
    return step_state<Tag, Scale, Pairs...>{scale, pairs};
}

// --- numbers that may be absent, or 1
template <class R, class X> constexpr auto times(const R& r, const X& x) {
    if constexpr (std::is_same_v<X, absent>)
        return absent{};
    else if constexpr (std::is_same_v<X, unscaled>)
        return r;
    else
        return r * x;
}
template <class X> constexpr auto as_number(const X& x) {
    if constexpr (std::is_same_v<X, unscaled>)
        return constant<kind::real>{1};
    else
        return x;
}
template <bool Subtract, class X, class Y> constexpr auto plus(const X& x, const Y& y) {
    if constexpr (std::is_same_v<Y, absent>)
        return x;
    else if constexpr (std::is_same_v<X, absent> && Subtract)
        return -as_number(y);
    else if constexpr (std::is_same_v<X, absent>)
        return y;
    else if constexpr (Subtract)
        return as_number(x) - as_number(y);
    else
        return as_number(x) + as_number(y);
}

// --- rows and values of a token
/// A row as a real over (b, h, q_idx, d_idx).
template <class R> constexpr auto row_of(const R& row) {
    if constexpr (is_rejected<R>)
        return rejected{};
    else if constexpr (is_channels<R>) {
        if constexpr (std::is_same_v<decltype(row.position), index_node<operation::kv_idx>>) {
            // Of R by name alone: clang before 17 judges what depends on nothing without an instance.
            constexpr axis_kind cache = is_rejected<R> ? axis_kind::query : axis_kind::key;
            static_assert(row_of_a_token<cache, axis_kind::depth>,
                          "attune: the rows of a recurrence are declared over `query`; this tensor, as k, is declared "
                          "over `key`, a cache's axis");
            return rejected{};
        } else
            return as_real(row(dsl::d_idx));
    } else if constexpr (R::op == operation::queries) {
        return row.children.unpack([](const auto& formula, const auto&...) { return formula; });
    } else if constexpr (!row_of_a_token<length_axis<R>, depth_axis<R>>) {
        static_assert(row_of_a_token<length_axis<R>, depth_axis<R>>,
                      "attune: the rows of a recurrence are declared over `query`; this tensor, as k, is declared over "
                      "`key`, a cache's axis");
        return rejected{};
    } else
        return as_real(row(dsl::b, dsl::h, dsl::q_idx, dsl::d_idx));
}

/// Values as a real or an output over (b, h, q_idx, d_idx).
template <class X> constexpr auto values_of(const X& x) {
    constexpr unsigned forbidden = use::key | use::row | use::value;
    if constexpr (is_rejected<X>)
        return rejected{};
    else if constexpr (kind_of<X> == kind::tensor) {
        if constexpr (!values_over_query<length_axis<X>, depth_axis<X>>) {
            static_assert(values_over_query<length_axis<X>, depth_axis<X>>,
                          "attune: the values of a recurrence are a tensor (batch, head, query, value_depth), or a "
                          "number of (b, h, q_idx, d_idx); this tensor has other axes");
            return rejected{};
        } else
            return as_real(x(dsl::b, dsl::h, dsl::q_idx, dsl::d_idx));
    } else if constexpr ((kind_of<X> != kind::output && !is_plain(kind_of<X>)) || (uses_in<X> & forbidden)) {
        static_assert(values_of_a_token<kind_of<X>>, "attune: a state is made of a row of keys and a row of values");
        return rejected{};
    } else if constexpr (kind_of<X> == kind::output)
        return x;
    else
        return as_real(lift(x));
}
template <class X> constexpr auto as_row_of_step(const X& x) {
    if constexpr (is_step_row<X>)
        return x;
    else {
        const auto values = values_of(x);
        if constexpr (is_rejected<std::remove_const_t<decltype(values)>>)
            return rejected{};
        else
            return make_row<void>(values, hana::basic_tuple<>{});
    }
}

// --- sums
template <class Pair> constexpr auto negated_pair(const Pair& pair);

template <class Read> constexpr auto negated_read(const Read& x) {
    return state_read<!Read::subtracted, decltype(x.row), decltype(x.scale), decltype(x.factor)>{x.row, x.scale,
                                                                                                 x.factor};
}
template <class Tag, class Plain, class... Reads> constexpr auto negated(const step_row<Tag, Plain, Reads...>& x) {
    return make_row<Tag>(plus<true>(absent{}, x.plain),
                         each_of(x.reads, [](const auto& read) { return negated_read(read); }));
}
template <class Tag, class Scale, class... Pairs> constexpr auto negated(const step_state<Tag, Scale, Pairs...>& x) {
    return make_state<Tag>(plus<true>(absent{}, x.scale), each_of(x.pairs, [](const auto& pair) {
                               const auto row = negated(pair.row);
                               return rank_one<decltype(pair.key), std::remove_const_t<decltype(row)>>{pair.key, row};
                           }));
}
template <bool Subtract, class X> constexpr auto negated_if(const X& x) {
    if constexpr (Subtract)
        return negated(x);
    else
        return x;
}

/// The sum of two rows, or of two states.
template <bool Subtract, class A, class B> constexpr auto step_sum(const A& a, const B& b) {
    if constexpr (is_rejected<A> || is_rejected<B>)
        return rejected{};
    else if constexpr (is_step_state<A> != is_step_state<B>)
        return not_linear<A, B>();
    else if constexpr (is_step_state<A>) {
        if constexpr (!of_one_state<A, B>())
            return rejected{};
        else
            return make_state<joined_tag<A, B>>(plus<Subtract>(a.scale, b.scale),
                                                both(a.pairs, negated_if<Subtract>(b).pairs));
    } else {
        const auto x = as_row_of_step(a);
        const auto y = as_row_of_step(b);
        using X = std::remove_const_t<decltype(x)>;
        using Y = std::remove_const_t<decltype(y)>;
        if constexpr (is_rejected<X> || is_rejected<Y>)
            return rejected{};
        else if constexpr (!of_one_state<X, Y>())
            return rejected{};
        else
            return make_row<joined_tag<X, Y>>(plus<Subtract>(x.plain, y.plain),
                                              both(x.reads, negated_if<Subtract>(y).reads));
    }
}

// --- products
// Echoed with what a decay depends on.
template <unsigned Uses>
inline constexpr bool decays_by_heads_tokens_and_channels = (Uses & (use::key | use::value)) == 0;
template <kind Found> inline constexpr bool decays_by_a_real = is_plain(Found);

/// A real times a row that reads S.
template <class R, class Row> constexpr auto scaled_row(const R& r, const Row& x) {
    constexpr unsigned forbidden = use::key | use::channel | use::late | use::value;
    if constexpr (uses_in<R> & forbidden) {
        static_assert(free_of<uses_in<R>, forbidden>,
                      "attune: what a step reads from its state is multiplied by reals of (b, h, q_idx)");
        return rejected{};
    } else
        return make_row<typename Row::tag>(
            times(r, x.plain), each_of(x.reads, [&](const auto& read) {
                using Read = std::remove_cvref_t<decltype(read)>;
                const auto factor = times(r, read.factor);
                return state_read<Read::subtracted, decltype(read.row), decltype(read.scale),
                                  std::remove_const_t<decltype(factor)>>{read.row, read.scale, factor};
            }));
}

/// A real times t(key) row: a channel of the real is the key's.
template <class R, class Pair> constexpr auto scaled_pair(const R& r, const Pair& pair) {
    if constexpr (uses_in<R> & use::channel) {
        const auto key = r * pair.key;
        return rank_one<std::remove_const_t<decltype(key)>, decltype(pair.row)>{key, pair.row};
    } else {
        const auto row = scaled_row(r, pair.row);
        return rank_one<decltype(pair.key), std::remove_const_t<decltype(row)>>{pair.key, row};
    }
}

/// A number times a state or a row of a step.
template <class R, class X> constexpr auto scaled(const R& number, const X& x) {
    constexpr unsigned late = use::late;
    if constexpr (is_rejected<R> || is_rejected<X>)
        return rejected{};
    else if constexpr (!decays_by_heads_tokens_and_channels<uses_in<R>> || kind_of<R> == kind::output) {
        static_assert(decays_by_heads_tokens_and_channels<uses_in<R>> && decays_by_a_real<kind_of<R>>,
                      "attune: a state decays by heads, tokens and channels of its keys");
        return rejected{};
    } else if constexpr (!is_plain(kind_of<R>) || (uses_in<R> & late))
        return not_linear<R, X>();
    else {
        const auto r = as_real(lift(number));
        if constexpr (is_step_row<X>)
            return scaled_row(r, x);
        else
            return make_state<typename X::tag>(
                times(r, x.scale), each_of(x.pairs, [&](const auto& pair) { return scaled_pair(r, pair); }));
    }
}

/// A row times a state: a row of values.
template <class R, class Tag, class Scale, class... Pairs>
constexpr auto read_of(const R& row, const step_state<Tag, Scale, Pairs...>& state) {
    const auto real = row_of(row);
    using Real = std::remove_const_t<decltype(real)>;
    if constexpr (is_rejected<Real>)
        return rejected{};
    else if constexpr (sizeof...(Pairs) > 0) {
        static_assert(sizeof...(Pairs) == 0,
                      "attune: a step reads its state before it adds to it; the output reads the new one: q * states");
        return rejected{};
    } else
        return make_row<Tag>(absent{}, hana::basic_tuple<state_read<false, Real, Scale, unscaled>>{
                                           state_read<false, Real, Scale, unscaled>{real, state.scale, {}}});
}

/// t(key) times values or a row of a step.
template <class K, class X> constexpr auto rank_one_of(const K& transposed, const X& x) {
    const auto key = transposed.children.unpack([](const auto& row) { return row_of(row); });
    using Key = std::remove_const_t<decltype(key)>;
    if constexpr (is_step_state<X>)
        return not_linear<X>();
    else {
        const auto row = as_row_of_step(x);
        using Row = std::remove_const_t<decltype(row)>;
        if constexpr (is_rejected<Key> || is_rejected<Row>)
            return rejected{};
        else
            return make_state<typename Row::tag>(absent{},
                                                 hana::basic_tuple<rank_one<Key, Row>>{rank_one<Key, Row>{key, row}});
    }
}

template <class A, class B> constexpr auto step_product(const A& a, const B& b) {
    if constexpr (is_rejected<A> || is_rejected<B>)
        return rejected{};
    else if constexpr (is_transposed<A>)
        return rank_one_of(a, b);
    else if constexpr (is_row_or_channels<A> && is_step_state<B>)
        return read_of(a, b);
    else if constexpr (kind_of<B> == kind::state && kind_of<A> != kind::state && is_number(kind_of<A>))
        return scaled(a, b);
    else if constexpr (kind_of<A> == kind::state && kind_of<B> != kind::state && is_number(kind_of<B>))
        return scaled(b, a);
    else
        return not_linear<A, B>();
}

}  // namespace attune::dsl::detail
