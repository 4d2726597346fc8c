#pragma once
#include <attune/dsl/build.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // the lists of a graph are indexed by int

/// The compiler checks the arguments of a call: everything that the graph reads and names, nothing else, nothing twice.
namespace attune::dsl {

// Echoed by the compiler: false with the names of what is missing, unread or repeated.
template <name... Missing> inline constexpr bool every_input_was_passed = sizeof...(Missing) == 0;
template <name... Unread> inline constexpr bool variant_reads = sizeof...(Unread) == 0;
template <name... Repeated> inline constexpr bool passed_once = sizeof...(Repeated) == 0;
template <name... Scalar> inline constexpr bool scalars_are_numbers = sizeof...(Scalar) == 0;
template <name... Tensor> inline constexpr bool tensors_are_views = sizeof...(Tensor) == 0;

namespace detail {

template <class T> inline constexpr bool is_argument = false;
template <name Label, class Value> inline constexpr bool is_argument<argument<Label, Value>> = true;

/// What a call passes under one name.
struct given_argument {
    std::string_view label;
    bool is_number, is_integer;
};

/// Labels that are wrong.
struct label_list {
    std::array<std::string_view, max_inputs + max_outputs + 2> labels{};
    std::size_t count{};
    constexpr void add(std::string_view label) {
        if (count < labels.size()) labels[count++] = label;
    }
};

struct call_faults {
    label_list missing, unread, repeated, not_numbers, not_views;
    constexpr bool none() const {
        return missing.count + unread.count + repeated.count + not_numbers.count + not_views.count == 0;
    }
};

/// Compares the names that a graph reads with those that a call passes. Questions about a call may leave outputs out.
constexpr call_faults faults_of(const ir_builder& list, bool outputs_too, std::span<const given_argument> given) {
    call_faults found;
    const auto times = [&](std::string_view label) {
        int count = 0;
        for (const given_argument& g : given) count += g.label == label;
        return count;
    };
    for (int i = 0; i < list.input_count; ++i)
        if (times(list.inputs[i].name) == 0) found.missing.add(list.inputs[i].name);
    for (int i = 0; i < list.output_count && outputs_too; ++i)
        if (times(list.outputs[i].name) == 0) found.missing.add(list.outputs[i].name);
    for (const given_argument& g : given) {
        input_declaration input;  // a copy: g++ does not compare pointers at compile time under -fsanitize=undefined
        bool known = is_built_in(g.label);
        for (int i = 0; i < list.input_count; ++i)
            if (list.inputs[i].name == g.label) input = list.inputs[i], known = true;
        for (int i = 0; i < list.output_count; ++i) known = known || list.outputs[i].name == g.label;
        const bool scalar = input.is_scalar;
        if (!known) found.unread.add(g.label);
        if (times(g.label) > 1) found.repeated.add(g.label);
        if (scalar && (!g.is_number || (input.element == element_type::i32 && !g.is_integer)))
            found.not_numbers.add(g.label);
        if (known && !scalar && g.is_number) found.not_views.add(g.label);
    }
    return found;
}

template <class... Arguments>
inline constexpr std::array<given_argument, sizeof...(Arguments)> given_arguments{
    {{Arguments::label, std::is_arithmetic_v<decltype(Arguments::value)>,
      std::is_integral_v<decltype(Arguments::value)>}...}};
template <const auto& Graph, bool OutputsToo, class... Arguments>
inline constexpr call_faults faults = faults_of(built<Graph>, OutputsToo, given_arguments<Arguments...>);

/// A wrong label, as a type that the compiler echoes.
template <const label_list& List, std::size_t I>
inline constexpr auto label_at = name<List.labels[I].size() + 1>(List.labels[I]);

template <const label_list& List, std::size_t... I> constexpr bool check_missing(std::index_sequence<I...>) {
    static_assert(every_input_was_passed<label_at<List, I>...>,
                  "attune: the call leaves out inputs or outputs of this variant");
    return every_input_was_passed<label_at<List, I>...>;
}
template <const label_list& List, std::size_t... I> constexpr bool check_unread(std::index_sequence<I...>) {
    static_assert(variant_reads<label_at<List, I>...>,
                  "attune: the call passes something that this variant never reads");
    return variant_reads<label_at<List, I>...>;
}
template <const label_list& List, std::size_t... I> constexpr bool check_repeated(std::index_sequence<I...>) {
    static_assert(passed_once<label_at<List, I>...>, "attune: the call passes something twice");
    return passed_once<label_at<List, I>...>;
}
template <const label_list& List, std::size_t... I> constexpr bool check_scalars(std::index_sequence<I...>) {
    static_assert(scalars_are_numbers<label_at<List, I>...>,
                  "attune: a scalar of this variant is passed something else than its kind of number; an i32 scalar "
                  "takes an integer");
    return scalars_are_numbers<label_at<List, I>...>;
}
template <const label_list& List, std::size_t... I> constexpr bool check_views(std::index_sequence<I...>) {
    static_assert(tensors_are_views<label_at<List, I>...>,
                  "attune: a number is passed where this variant reads a tensor");
    return tensors_are_views<label_at<List, I>...>;
}

template <const call_faults& Found> constexpr bool check_faults() {
    if constexpr (Found.none())
        return true;
    else
        return check_missing<Found.missing>(std::make_index_sequence<Found.missing.count>{}) &&
               check_unread<Found.unread>(std::make_index_sequence<Found.unread.count>{}) &&
               check_repeated<Found.repeated>(std::make_index_sequence<Found.repeated.count>{}) &&
               check_scalars<Found.not_numbers>(std::make_index_sequence<Found.not_numbers.count>{}) &&
               check_views<Found.not_views>(std::make_index_sequence<Found.not_views.count>{});
}

template <const auto& Graph, bool OutputsToo, class... Arguments> constexpr bool check_call() {
    if constexpr ((is_argument<Arguments> && ...))
        return check_faults<faults<Graph, OutputsToo, Arguments...>>();
    else if constexpr ((named_part_of_the_graph<Arguments> || ...)) {
        static_assert(!(named_part_of_the_graph<Arguments> || ...),
                      "attune: a call passes tensors and numbers; a formula belongs to the graph");
        return false;
    } else {
        static_assert((is_argument<Arguments> && ...),
                      "attune: a call takes arguments by name: run<variant>(q = Q, k = K, v = V, out = O)");
        return false;
    }
}

}  // namespace detail

/// True, or an error that names the arguments that a call of `Graph` misses, does not read, passes twice or passes as
/// the wrong kind.
template <const auto& Graph, class... Arguments> constexpr bool check_arguments() {
    return detail::check_call<Graph, true, Arguments...>();
}

/// The same for a question about a call: outputs may be left out.
template <const auto& Graph, class... Arguments> constexpr bool check_inputs() {
    return detail::check_call<Graph, false, Arguments...>();
}

}  // namespace attune::dsl

#pragma GCC diagnostic pop
