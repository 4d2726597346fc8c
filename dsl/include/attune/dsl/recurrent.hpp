#pragma once
#include <attune/dsl/enter.hpp>
#include <attune/dsl/row_formulas.hpp>
#include <attune/dsl/step.hpp>
#include <attune/ir/recurrence.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // the lists of a graph are indexed by int

/// Recurrent state: linear attention, gated and delta rules, as a formula for one token.
///
///     inline constexpr auto gated = recurrence(state_in, [](auto S) {
///         const auto kept = exp(log_decay(b, h, q_idx)) * S;
///         return kept + t(key) * (beta(b, h, q_idx) * (value - key * kept));
///     });
///     inline constexpr auto variant = outputs(out = query_row * gated * rsqrt(depth), output<"state_out"> =
///     last(gated));
///
/// S is a matrix (depth, value depth) for each batch element and head. `row * S` is a row of values, `t(row) * values`
/// a state of rank one. Rows and values of a token stand at q_idx. This header is included by those who write
/// recurrences.
namespace attune::dsl {

/// The value channel in an initial state: `pool(slot(b), h, d_idx, value_idx)`. d_idx is the channel of its keys.
inline constexpr index_node<operation::value_idx> value_idx{};

// More constrained than the operators of operators.hpp, and so chosen where S or t(row) stands.
template <class A, class B>
    requires(involves_graph<A, B> && detail::is_of_a_step<A, B>)
constexpr auto operator+(const A& x, const B& y) {
    return detail::step_sum<false>(x, y);
}
template <class A, class B>
    requires(involves_graph<A, B> && detail::is_of_a_step<A, B>)
constexpr auto operator-(const A& x, const B& y) {
    return detail::step_sum<true>(x, y);
}
template <class A, class B>
    requires(involves_graph<A, B> && (detail::is_of_a_step<A, B> || detail::is_transposed<A>))
constexpr auto operator*(const A& x, const B& y) {
    return detail::step_product(x, y);
}
template <class A, class B>
    requires(involves_graph<A, B> && detail::is_of_a_step<A, B>)
constexpr auto operator/(const A& x, const B& y) {
    if constexpr (kind_of<A> == kind::state && is_plain(kind_of<B>))
        return detail::scaled(1.0 / as_real(lift(y)), x);
    else
        return detail::not_linear<A, B>();
}
template <expression A>
    requires(detail::is_of_a_step<A>)
constexpr auto operator-(const A& x) {
    return detail::negated(x);
}
/// A row that is a function of its channel, as `unit` makes them.
template <class Position, class F, class B>
    requires(expression<B> && kind_of<B> == kind::state)
constexpr auto operator*(const channels_of<Position, F>& row, const B& state) {
    return detail::step_product(row, state);
}
template <class Position, class F> constexpr auto t(const channels_of<Position, F>& row) {
    const auto real = detail::row_of(row);
    if constexpr (is_rejected<std::remove_const_t<decltype(real)>>)
        return rejected{};
    else
        return t(queries(real));
}

namespace detail {

/// The states after each token, as `recurrence` returns them.
template <class Initial, class Step> struct recurrence_node {
    static constexpr kind is = kind::states;
    static constexpr operation op = operation::recurrence;
    static constexpr unsigned uses = 0;
    Initial initial;
    Step step;

    constexpr node_id enter_into(ir_builder& list) const {
        const node_id first = enter(list, initial);
        recurrence_fold fold(list, first, entered_scale(list, step.scale));
        hana::unpack(step.pairs, [&](const auto&... pair) {
            (enter_values(list, fold, pair), ...);
            (enter_reads(list, fold, pair), ...);
        });
        return fold.done();
    }

private:
    template <class Scale> static constexpr node_id entered_scale(ir_builder& list, const Scale& scale) {
        if constexpr (std::is_same_v<Scale, absent>)
            return enter(list, constant<kind::real>{0});
        else if constexpr (std::is_same_v<Scale, unscaled>)
            return enter(list, constant<kind::real>{1});
        else
            return enter(list, scale);
    }
    template <class Pair>
    static constexpr void enter_values(ir_builder& list, recurrence_fold& fold, const Pair& pair) {
        if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(pair.row.plain)>, absent>) {
            const node_id key = enter(list, pair.key);
            fold.add_values(key, enter(list, pair.row.plain));
        }
    }
    template <class Pair> constexpr void enter_reads(ir_builder& list, recurrence_fold& fold, const Pair& pair) const {
        hana::unpack(pair.row.reads, [&](const auto&... read) { (enter_read(list, fold, pair.key, read), ...); });
    }
    template <class Key, class Read>
    constexpr void enter_read(ir_builder& list, recurrence_fold& fold, const Key& key, const Read& read) const {
        const node_id of_key = enter(list, key), row = enter(list, read.row);
        constexpr bool has_factor = !std::is_same_v<decltype(read.factor), unscaled>;
        node_id factor = no_node;
        if constexpr (has_factor) factor = enter(list, read.factor);
        if (reads_decayed(list, fold, read.scale) && fold.erase(of_key, row, factor, Read::subtracted)) return;
        node_id whole = row;
        if (has_factor) whole = fold.of_two(operation::multiply, whole, factor);
        if constexpr (!std::is_same_v<decltype(read.scale), unscaled>)
            whole = fold.of_two(operation::multiply, whole, enter(list, read.scale));
        if (Read::subtracted) whole = fold.negated(whole);
        fold.add_second(of_key, whole);
    }
    /// Whether a read is of the state that the step keeps, the decayed one. Of one type, constants may differ.
    template <class Scale>
    static constexpr bool reads_decayed(ir_builder& list, const recurrence_fold& fold, const Scale& scale) {
        if constexpr (!std::is_same_v<Scale, std::remove_cvref_t<decltype(Step::scale)>>)
            return false;
        else
            return entered_scale(list, scale) == fold.decay();
    }
};

// Echoed with what was found.
template <kind Found> inline constexpr bool a_state_returned = Found == kind::state;
template <class Found> inline constexpr bool made_of_its_state = false;
template <class Found> inline constexpr bool a_function_of_its_state = false;
template <operation Found> inline constexpr bool states_of_a_recurrence = Found == operation::recurrence;

template <class F> using state_of_step = step_state<F, unscaled>;

/// A real over (b, h, d_idx, value_idx); a tensor is read there.
template <class Initial> constexpr auto initial_state(const Initial& initial) {
    constexpr unsigned forbidden = use::query | use::key | use::bound | use::late;
    if constexpr (is_rejected<Initial>)
        return rejected{};
    else if constexpr (is_a_tensor_of_states<Initial>)
        return as_real(initial(dsl::b, dsl::h, dsl::d_idx, dsl::value_idx));
    else if constexpr (!is_plain(kind_of<Initial>) || (uses_in<Initial> & forbidden)) {
        static_assert(plain_number<kind_of<Initial>> && free_of<uses_in<Initial>, forbidden>,
                      "attune: an initial state is a tensor of reals (batch, head, depth, value_depth), or a real of "
                      "(b, h, d_idx, value_idx)");
        return rejected{};
    } else
        return as_real(lift(initial));
}

template <class Initial, class F, class Step> constexpr auto closed(const Initial& initial, const Step& step) {
    if constexpr (is_rejected<Step> || is_rejected<Initial>)
        return rejected{};
    else if constexpr (!is_step_state<Step>) {
        constexpr kind found = is_step_row<Step> ? kind::output : kind_of<Step>;
        static_assert(a_state_returned<found>, "attune: a step returns a state, this one returns an output");
        return rejected{};
    } else if constexpr (std::is_void_v<typename Step::tag>) {
        static_assert(made_of_its_state<Step>,
                      "attune: a step that forgets its state is no recurrence; it has to return a state made of `S`");
        return rejected{};
    } else if constexpr (!std::is_same_v<typename Step::tag, F>) {
        static_assert(own_state<F, typename Step::tag>, "attune: a step reads its own state only");
        return rejected{};
    } else
        return recurrence_node<Initial, Step>{initial, step};
}
}  // namespace detail

/// The states after each token. The step is a function of the state before a token, S, and returns the one after it:
/// `recurrence(state_in, [](auto S) { return decay(h) * S + t(key) * value; })`. The state before the first token is an
/// input (batch, head, depth, value_depth) or a real of (b, h, d_idx, value_idx).
template <operand Initial, class F> constexpr auto recurrence(const Initial& initial, const F& step) {
    if constexpr (!requires { step(detail::state_of_step<F>{}); }) {
        static_assert(detail::a_function_of_its_state<F>,
                      "attune: the step of a recurrence is a function of its state: recurrence(state_in, [](auto S) { "
                      "return decay * S + t(k) * value; })");
        return rejected{};
    } else {
        const auto from = detail::initial_state(initial);
        const auto made = step(detail::state_of_step<F>{});
        return detail::closed<std::remove_const_t<decltype(from)>, F>(from, made);
    }
}
/// The same from an empty state.
template <class F> constexpr auto recurrence(const F& step) { return recurrence(constant<kind::real>{0}, step); }

/// The state after the last token of each batch element: an output (batch, head, depth, value_depth). If the step reads
/// key heads alone, the output has key heads.
template <operand S> constexpr auto last(const S& states) {
    if constexpr (is_rejected<S>)
        return rejected{};
    else if constexpr (operation_of<S> != operation::recurrence) {
        static_assert(detail::states_of_a_recurrence<operation_of<S>>,
                      "attune: `last` takes the states that `recurrence` returns");
        return rejected{};
    } else
        return make<kind::last_state, operation::last>(states);
}

/// The states before each token, which rows read as they do the ones after it: `q * earlier(states)`.
template <operand S> constexpr auto earlier(const S& states) {
    if constexpr (is_rejected<S>)
        return rejected{};
    else if constexpr (operation_of<S> != operation::recurrence) {
        static_assert(detail::states_of_a_recurrence<operation_of<S>>,
                      "attune: `earlier` takes the states that `recurrence` returns");
        return rejected{};
    } else
        return make<kind::states, operation::earlier>(states);
}

namespace detail {
// Echoed with what was found.
template <kind Found> inline constexpr bool a_row_of_keys = Found == kind::tensor;

template <class R, class S> constexpr auto reading(const R& row, const S& states) {
    if constexpr (is_rejected<R> || is_rejected<S>)
        return rejected{};
    else if constexpr (!is_row_or_channels<R>) {
        static_assert(a_row_of_keys<kind_of<R>>,
                      "attune: states are read by a row, from the left: q * states; what they give is scaled after");
        return rejected{};
    } else {
        const auto real = row_of(row);
        if constexpr (is_rejected<std::remove_const_t<decltype(real)>>)
            return rejected{};
        else
            return make<kind::output, operation::read_states>(real, states);
    }
}
}  // namespace detail

/// A row read at every state: an output.
template <class R, class S>
    requires(involves_graph<R, S> && (kind_of<S> == kind::states || kind_of<R> == kind::states))
constexpr auto operator*(const R& row, const S& states) {
    if constexpr (kind_of<S> == kind::states)
        return detail::reading(row, states);
    else
        return detail::reading(states, row);
}
template <class Position, class F, class S>
    requires(kind_of<S> == kind::states)
constexpr auto operator*(const channels_of<Position, F>& row, const S& states) {
    return detail::reading(row, states);
}

}  // namespace attune::dsl

#pragma GCC diagnostic pop
