#pragma once
#include <attune/dsl.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/error.hpp>

#include <array>
#include <concepts>
#include <limits>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

namespace attune {
namespace detail {

template <class T> inline constexpr bool is_options = std::same_as<T, options>;

template <class T> inline constexpr bool is_tensor = std::is_convertible_v<const T&, tensor>;

/// An unsigned number too large for i64 must not wrap into one that would be accepted.
template <std::integral I> constexpr std::int64_t saturated(I value) {
    const auto signed_value = static_cast<std::int64_t>(value);
    return value > 0 && signed_value < 0 ? std::numeric_limits<std::int64_t>::max() : signed_value;
}

template <dsl::name Label, class Value> named_argument named(const dsl::argument<Label, Value>& given) {
    using form = named_argument::form;
    named_argument result{.name = Label.view()};
    if constexpr (std::same_as<Value, bool>)
        result.is = form::boolean, result.integer = given.value;
    else if constexpr (std::integral<Value>)
        result.is = form::integer, result.integer = saturated(given.value);
    else if constexpr (std::floating_point<Value>)
        result.is = form::real, result.real = static_cast<double>(given.value);
    else {
        static_assert(
            is_tensor<Value>,
            "attune: an argument is neither a number nor an attune::tensor; try attune::tensor(pointer, {shape})");
        if constexpr (is_tensor<Value>) result.view = given.value;
    }
    return result;
}

template <class T> inline constexpr bool is_named = false;
template <dsl::name Label, class Value> inline constexpr bool is_named<dsl::argument<Label, Value>> = true;

// The arguments without the options, which may stand anywhere: what dsl::check_arguments checks.
template <class... Kept> struct kept {};
template <class Kept, class... Rest> struct without_options {
    using type = Kept;
};
template <class... Kept, class First, class... Rest>
struct without_options<kept<Kept...>, First, Rest...>
    : without_options<std::conditional_t<is_options<First>, kept<Kept...>, kept<Kept..., First>>, Rest...> {};
template <class... Arguments> using named_arguments = typename without_options<kept<>, Arguments...>::type;

/// Where a name stands in the graph: its inputs, kv_lengths, cu_seqlens_q, its outputs.
template <const auto& Graph> constexpr int place_in_graph(std::string_view name) {
    constexpr const auto& list = dsl::detail::built<Graph>;
    for (int i = 0; i < list.input_count; ++i)
        if (list.inputs[static_cast<std::size_t>(i)].name == name) return i;
    for (int i = 0; i < list.output_count; ++i)
        if (list.outputs[static_cast<std::size_t>(i)].name == name) return list.input_count + 2 + i;
    return list.input_count + (name == dsl::cu_seqlens_q_input::label);
}

/// How many of the arguments come before one in the graph.
template <const auto& Graph, class Argument, class... Arguments> constexpr std::size_t place_among() {
    const auto place = [](std::string_view name) { return place_in_graph<Graph>(name); };
    return (std::size_t{place(Arguments::label) < place(Argument::label)} + ... + 0);
}

/// A call's arguments in the order of the graph, its options set apart.
template <std::size_t Count> struct argument_list {
    std::array<named_argument, Count> given;
    options how{};
};
template <const auto& Graph, class... Kept, class... Arguments>
argument_list<sizeof...(Kept)> list_of(kept<Kept...>, const Arguments&... arguments) {
    argument_list<sizeof...(Kept)> list;
    const auto enter = [&]<class Argument>(const Argument& argument) {
        if constexpr (is_options<Argument>)
            list.how = argument;
        else
            list.given[place_among<Graph, Argument, Kept...>()] = named(argument);
    };
    (enter(arguments), ...);
    return list;
}

template <const auto& Graph, class... Kept> constexpr bool check(kept<Kept...>) {
    return dsl::check_arguments<Graph, Kept...>();
}
template <const auto& Graph, class... Kept> constexpr bool check_question(kept<Kept...>) {
    return dsl::check_inputs<Graph, Kept...>();
}

template <const auto& Graph> const kernel_table& table_of() { return kernels_of<Graph, dsl::fingerprint<Graph>>(); }

}  // namespace detail

/// Computes a variant: `run<my::alibi>(q = Q, k = K, v = V, slopes = S, out = O)`, arguments by name and in any order,
/// and an attune::options anywhere among them. q (batch, head, query, depth), k (batch, key head, key, depth), v
/// (batch, key head, key, value depth), out (batch, head, query, value depth), rows such as lse (batch, head, query)
/// f32, kv_lengths i32 (batch). The depths of q, k, v and out are dense; every other stride is free. Inputs broadcast
/// along axes of extent 1, except the heads, lengths and depths of q, k and v.
///
/// With cu_seqlens_q, i32 (batch + 1), the queries of all sequences lie one after another: whatever has a query axis
/// has batch extent 1, and sequence b has the queries from cu_seqlens_q[b] to cu_seqlens_q[b + 1]. The results are
/// those of one call for each sequence.
///
/// Arguments that are missing, never read or passed twice do not compile. Shapes, strides, element types, pointers,
/// overlap and lengths are checked before anything is written. A mistake throws attune::error, and so does a CPU that
/// runs none of the linked kernels.
template <const auto& Graph, class... Arguments> void run(const Arguments&... arguments) {
    if constexpr (detail::check<Graph>(detail::named_arguments<Arguments...>{})) {
        const auto list = detail::list_of<Graph>(detail::named_arguments<Arguments...>{}, arguments...);
        detail::call(detail::table_of<Graph>(), list.given, list.how);
    }
}

/// A prepared call: names are found, shapes, types and pointers are checked, and the kernel is chosen. Use it to make
/// the same call many times, or to ask about exactly the call that is made. The tensors' memory, and what options point
/// to, must outlive it. The contents of the tensors may change between calls; each call checks lengths, and indices
/// such as a page table's. The environment is read when the call is prepared, except for the number of threads; a call
/// that is bound anew (cu_seqlens_q, another number that decides an index or a length, parts, a GPU) heeds later
/// settings, too. Copies are the same call.
class prepared_call {
public:
    explicit prepared_call(std::shared_ptr<const detail::prepared> what) : what_(std::move(what)) {}

    void operator()() const { detail::call(*what_); }  ///< as run
    /// The same call with other tensors or numbers in place of some, by name: `call(k = next_k, v = next_v, w = 3)`. A
    /// tensor must have the shape, strides, type and memory of the one that it replaces; in a call with cu_seqlens_q it
    /// may have any that `run` takes. Any other argument throws attune::error before anything is written. Later calls
    /// take the prepared arguments again, so several threads may each pass their own.
    template <class... Named>
        requires(sizeof...(Named) > 0 && (detail::is_named<Named> && ...))
    void operator()(const Named&... others) const {
        const detail::named_argument given[] = {detail::named(others)...};
        detail::call(*what_, given);
    }
    explanation explain() const { return detail::explain(*what_); }  ///< as attune::explain
    block_map blocks() const { return detail::blocks(*what_); }      ///< as attune::blocks

private:
    std::shared_ptr<const detail::prepared> what_;
};

/// Takes what `run` takes, with the same checks and errors, and returns the call instead of making it.
template <const auto& Graph, class... Arguments> auto prepare(const Arguments&... arguments) {
    if constexpr (detail::check<Graph>(detail::named_arguments<Arguments...>{})) {
        const auto list = detail::list_of<Graph>(detail::named_arguments<Arguments...>{}, arguments...);
        return prepared_call(detail::prepare(detail::table_of<Graph>(), list.given, list.how));
    }
}

/// What `run` would do with these arguments: kernel, blocks, bytes, threads. Reads the inputs that decide what is
/// visible; outputs may be left out. Throws as `run` does.
template <const auto& Graph, class... Arguments> explanation explain(const Arguments&... arguments) {
    if constexpr (detail::check_question<Graph>(detail::named_arguments<Arguments...>{})) {
        const auto list = detail::list_of<Graph>(detail::named_arguments<Arguments...>{}, arguments...);
        return detail::explain(detail::table_of<Graph>(), list.given, list.how);
    } else
        return {};
}

/// The blocks that `run` would visit with these arguments; outputs may be left out.
template <const auto& Graph, class... Arguments> block_map blocks(const Arguments&... arguments) {
    if constexpr (detail::check_question<Graph>(detail::named_arguments<Arguments...>{})) {
        const auto list = detail::list_of<Graph>(detail::named_arguments<Arguments...>{}, arguments...);
        return detail::blocks(detail::table_of<Graph>(), list.given, list.how);
    } else
        return {};
}

/// The kernels linked for a variant: which of them run here, which are chosen, and why.
template <const auto& Graph> kernel_list kernels() { return detail::kernels(detail::table_of<Graph>()); }

/// Waits for the kernels that calls with these options and `wait = false` have queued on a GPU. Throws
/// attune::kernel_failure if one of them failed.
template <const auto& Graph> void synchronize(const options& how = {}) {
    detail::synchronize(detail::table_of<Graph>(), how);
}

}  // namespace attune
