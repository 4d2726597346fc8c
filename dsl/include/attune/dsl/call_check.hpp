#pragma once
#include <attune/dsl/build.hpp>

/// What a call must pass, checked by the compiler: everything the graph reads and names, nothing else, nothing twice.
namespace attune::dsl {

// Echoed by the compiler: false with the names of what is missing, unread or repeated.
template <name... Missing> inline constexpr bool every_input_was_passed = sizeof...(Missing) == 0;
template <name... Unread> inline constexpr bool variant_reads = sizeof...(Unread) == 0;
template <name... Repeated> inline constexpr bool passed_once = sizeof...(Repeated) == 0;
template <name... Scalar> inline constexpr bool scalars_are_numbers = sizeof...(Scalar) == 0;
template <name... Tensor> inline constexpr bool tensors_are_views = sizeof...(Tensor) == 0;

namespace detail {

template <name Label>
struct label {
    static constexpr auto value = Label;
};

/// The inputs and outputs of a graph as types, in listing order: q, k, v, slopes, ..., out.
template <const auto& Graph>
struct required {
    static constexpr const listing_builder& list = built<Graph>;
    static constexpr std::string_view at(std::size_t i) {
        return i < static_cast<std::size_t>(list.input_count) ? list.inputs[i].name : list.outputs[i - list.input_count].name;
    }
    template <std::size_t I>
    static constexpr auto label_at() { return label<name<at(I).size() + 1>(at(I))>{}; }
    template <std::size_t... I>
    static constexpr auto labels(std::index_sequence<I...>) { return hana::make_tuple(label_at<I>()...); }
    using type = decltype(labels(std::make_index_sequence<list.input_count + list.output_count>()));

    static constexpr bool names(std::string_view label) {
        for (int i = 0; i < list.input_count + list.output_count; ++i)
            if (at(static_cast<std::size_t>(i)) == label) return true;
        return label == "kv_lengths";
    }
    static constexpr bool is_input(std::string_view label) {
        for (int i = 0; i < list.input_count; ++i)
            if (list.inputs[i].name == label) return true;
        return false;
    }
    static constexpr bool is_scalar(std::string_view label) {
        for (int i = 0; i < list.input_count; ++i)
            if (list.inputs[i].name == label) return list.inputs[i].is_scalar;
        return false;
    }
    static constexpr bool is_integer_scalar(std::string_view label) {
        for (int i = 0; i < list.input_count; ++i)
            if (list.inputs[i].name == label) return list.inputs[i].is_scalar && list.inputs[i].element == element_type::i32;
        return false;
    }
};

template <class T> inline constexpr bool is_argument = false;
template <name Label, class Value> inline constexpr bool is_argument<argument<Label, Value>> = true;

/// The labels for which `keep` holds, spread into a predicate that the compiler echoes.
template <class Labels, class Keep>
constexpr auto labels_where(Labels labels, Keep keep) {
    return hana::filter(labels, [keep](auto l) { return hana::bool_c<keep(decltype(l)::value.view())>; });
}

template <const auto& Graph, bool OutputsToo, class... Arguments>
struct call_facts {
    static constexpr bool given(std::string_view label) { return ((Arguments::label == label) || ...); }
    static constexpr int times(std::string_view label) { return (int(Arguments::label == label) + ... + 0); }
    using given_labels = hana::tuple<label<Arguments::label_value>...>;
    template <class Value> static constexpr bool numeric = std::is_arithmetic_v<Value>;

    using missing = decltype(labels_where(typename required<Graph>::type{}, [](std::string_view l) { return !given(l) && (OutputsToo || required<Graph>::is_input(l)); }));
    using unread = decltype(labels_where(given_labels{}, [](std::string_view l) { return !required<Graph>::names(l); }));
    using repeated = decltype(labels_where(given_labels{}, [](std::string_view l) { return times(l) > 1; }));
    template <class Value>
    static constexpr bool fits_scalar(std::string_view l) { return numeric<Value> && (!required<Graph>::is_integer_scalar(l) || std::is_integral_v<Value>); }
    using not_numbers = decltype(labels_where(given_labels{}, [](std::string_view l) {
        return required<Graph>::is_scalar(l) && !((Arguments::label != l || fits_scalar<decltype(Arguments::value)>(l)) && ...); }));
    using not_views = decltype(labels_where(given_labels{}, [](std::string_view l) {
        return required<Graph>::names(l) && !required<Graph>::is_scalar(l) && ((Arguments::label == l && numeric<decltype(Arguments::value)>) || ...); }));
};

template <name... L> constexpr bool check_missing(hana::tuple<label<L>...>*) {
    static_assert(every_input_was_passed<L...>, "attune: the call leaves out inputs or outputs of this variant");
    return every_input_was_passed<L...>;
}
template <name... L> constexpr bool check_unread(hana::tuple<label<L>...>*) {
    static_assert(variant_reads<L...>, "attune: the call passes something that this variant never reads");
    return variant_reads<L...>;
}
template <name... L> constexpr bool check_repeated(hana::tuple<label<L>...>*) {
    static_assert(passed_once<L...>, "attune: the call passes something twice");
    return passed_once<L...>;
}
template <name... L> constexpr bool check_scalars(hana::tuple<label<L>...>*) {
    static_assert(scalars_are_numbers<L...>, "attune: a scalar of this variant is passed something else than its kind of number; an i32 scalar takes an integer");
    return scalars_are_numbers<L...>;
}
template <name... L> constexpr bool check_views(hana::tuple<label<L>...>*) {
    static_assert(tensors_are_views<L...>, "attune: a number is passed where this variant reads a tensor");
    return tensors_are_views<L...>;
}

template <const auto& Graph, bool OutputsToo, class... Arguments>
constexpr bool check_call() {
    if constexpr (!(is_argument<Arguments> && ...)) {
        static_assert((is_argument<Arguments> && ...), "attune: a call takes arguments by name: run<variant>(q = Q, k = K, v = V, out = O)");
        return false;
    } else {
        using facts = call_facts<Graph, OutputsToo, Arguments...>;
        return check_missing(static_cast<typename facts::missing*>(nullptr)) && check_unread(static_cast<typename facts::unread*>(nullptr)) &&
               check_repeated(static_cast<typename facts::repeated*>(nullptr)) && check_scalars(static_cast<typename facts::not_numbers*>(nullptr)) &&
               check_views(static_cast<typename facts::not_views*>(nullptr));
    }
}

}  // namespace detail

/// True, or an error that names what a call of `Graph` leaves out, passes in vain, passes twice or passes as the wrong kind.
template <const auto& Graph, class... Arguments>
constexpr bool check_arguments() { return detail::check_call<Graph, true, Arguments...>(); }

/// The same for a question about a call: outputs may be left out.
template <const auto& Graph, class... Arguments>
constexpr bool check_inputs() { return detail::check_call<Graph, false, Arguments...>(); }

}  // namespace attune::dsl
