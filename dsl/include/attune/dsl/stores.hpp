#pragma once
#include <attune/dsl/attention.hpp>
#include <attune/ir/builder.hpp>
#include <attune/ir/stores.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // the lists of a graph are indexed by int

/// Stores: a call writes its new keys and values to a cache before anything reads the cache.
///
///     inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
///     inline constexpr auto v_new = input<"v_new", f32>(batch, key_head, query, value_depth);
///     inline constexpr auto step = outputs(store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx)),
///                                          store(v(b, h, new_kv_idx, d_idx), v_new(b, h, q_idx, d_idx)),
///                                          out = softmax(mask(q * t(k), causal_bottom_right)) * v);
namespace attune::dsl {

/// The place of query q_idx's own key, if the queries are the tokens of the last keys in use, as in
/// causal_bottom_right. kv_lengths counts them already.
inline constexpr auto new_kv_idx = q_idx + (kv_lengths(b) - query_length);

/// `store(element, value)`, one part of outputs(...).
template <class Element, class Value> struct stored {
    Element element;
    Value value;
};
template <class Element, class Value> inline constexpr bool is_store<stored<Element, Value>> = true;

// Echoed with what was found.
template <operation Found> inline constexpr bool is_element_of_an_input = Found == operation::load;
template <kind Place, kind Value>
inline constexpr bool is_of_the_kind_of_the_elements =
    Place == Value || (Place == kind::real && Value == kind::integer);

namespace detail {
template <class E> inline constexpr bool reads_an_input = false;
template <kind Is, class Tensor, class... I>
inline constexpr bool reads_an_input<node<Is, operation::load, Tensor, I...>> = requires { Tensor::declaration; };
}  // namespace detail

/// Writes a number to an element of an input, for each batch element, key head, query and channel that the two vary
/// with: `store(cache(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx))`. It stands in outputs(...). All stores of a
/// call are done, one after another, before anything else is computed. Reals are rounded to the nearest value of the
/// elements. For i8, u8 and i16 the formula states limits: `clamp(as_integer(round(x)), -127, 127)`. Channels run over
/// the axis where the place has d_idx.
template <expression E, operand X> constexpr auto store(const E& element, const X& value) {
    constexpr unsigned forbidden = use::key | use::late;
    if constexpr (is_rejected<E> || is_rejected<X>)
        return rejected{};
    else if constexpr (!detail::reads_an_input<E>) {
        static_assert(detail::reads_an_input<E> && is_element_of_an_input<operation_of<E>>,
                      "attune: store(element, value): the first is an element of an input, such as "
                      "cache(b, h, new_kv_idx, d_idx)");
        return rejected{};
    } else if constexpr (!is_of_the_kind_of_the_elements<kind_of<E>, kind_of<X>>) {
        static_assert(is_of_the_kind_of_the_elements<kind_of<E>, kind_of<X>>,
                      "attune: store(element, value): integers are stored in tensors of integers, reals and integers "
                      "in those of reals; as_integer(round(x)) of a real is an integer");
        return rejected{};
    } else if constexpr ((uses_in<E> | uses_in<X>)&forbidden) {
        static_assert(free_of<uses_in<E> | uses_in<X>, forbidden>,
                      "attune: store(element, value): both depend on (b, h, q_idx, d_idx); a store runs before any "
                      "score, and q_idx counts the new keys");
        return rejected{};
    } else if constexpr (E::is == kind::real)
        return stored<E, decltype(as_real(lift(value)))>{element, as_real(lift(value))};
    else
        return stored<E, lifted<X>>{element, lift(value)};
}

/// The same where a condition holds, such as slot(b, q_idx) >= 0; elsewhere the element stays as it is, and its place
/// is not looked at.
template <expression E, operand X, class Condition>
constexpr auto store(const E& element, const X& value, const Condition& condition) {
    if constexpr (is_rejected<E> || !detail::reads_an_input<E>)
        return store(element, value);
    else if constexpr (E::is == kind::real && kind_of<X> == kind::integer)
        return store(element, where(condition, as_real(lift(value)), element));
    else
        return store(element, where(condition, value, element));
}

/// Outputs of a graph, and the stores before them.
template <class Outputs, class... Stores> struct outputs_after_stores : Outputs {
    detail::hana::basic_tuple<Stores...> stores;
};

// Echoed with how many outputs there are.
template <std::size_t Outputs> inline constexpr bool has_an_output = Outputs > 0;

namespace detail {
/// The parts of outputs(...) as stores and named outputs, each in their order.
template <class... S, class... N>
constexpr auto sorted(const hana::basic_tuple<S...>& stores, const hana::basic_tuple<N...>& named) {
    if constexpr ((is_rejected<S> || ...))
        return rejected{};
    else if constexpr (sizeof...(N) == 0) {
        static_assert(has_an_output<sizeof...(N)>,
                      "attune: a graph that stores has an output, too: outputs(store(...), out = softmax(s) * v)");
        return rejected{};
    } else {
        const auto outputs_alone = hana::unpack(named, [](const auto&... each) { return outputs(each...); });
        using outputs_type = std::remove_const_t<decltype(outputs_alone)>;
        if constexpr (is_rejected<outputs_type>)
            return rejected{};
        else
            return outputs_after_stores<outputs_type, S...>{outputs_alone, stores};
    }
}
template <class... S, class... N, class First, class... Rest>
constexpr auto sorted(const hana::basic_tuple<S...>& stores, const hana::basic_tuple<N...>& named, const First& first,
                      const Rest&... rest) {
    if constexpr (is_store<First>)
        return hana::unpack(stores, [&](const auto&... before) {
            return sorted(hana::basic_tuple<S..., First>{before..., first}, named, rest...);
        });
    else
        return hana::unpack(named, [&](const auto&... before) {
            return sorted(stores, hana::basic_tuple<N..., First>{before..., first}, rest...);
        });
}
}  // namespace detail

/// outputs(store(...), store(...), out = softmax(s) * v)
template <class... Part>
    requires((is_store<Part> || ...) && ((is_store<Part> || named_part_of_the_graph<Part>) && ...))
constexpr auto outputs(const Part&... parts) {
    return detail::sorted(detail::hana::basic_tuple<>{}, detail::hana::basic_tuple<>{}, parts...);
}

namespace detail {

// Echoed with the tensor that is stored to.
template <store_fault Why, name Tensor> inline constexpr bool can_be_stored = Why == store_fault::none;

/// One sentence for each reason.
template <store_fault Why, name Tensor> constexpr bool can_store() {
    using enum store_fault;
    static_assert(Why != reads_what_is_stored || can_be_stored<Why, Tensor>,
                  "attune: what a call stores, and where, is made of a tensor that the call stores; it would be read "
                  "before it is written or after: pass what it needs as a further input");
    static_assert(Why != of_a_query_head || can_be_stored<Why, Tensor>,
                  "attune: a store runs over key heads; h stands there along an axis key_head only: declare the axis "
                  "as key_head");
    static_assert(Why != in_one_place || can_be_stored<Why, Tensor>,
                  "attune: several values of a store have one place: the place varies with each of b, h, q_idx and "
                  "d_idx that the value varies with");
    static_assert(Why != channels_astray || can_be_stored<Why, Tensor>,
                  "attune: the channels of a store run over one axis of its tensor, which is indexed by d_idx alone; "
                  "no other index of the place is made of d_idx");
    static_assert(Why != other_channels || can_be_stored<Why, Tensor>,
                  "attune: the channels of a store are those of the axis where its place has d_idx; the value reads "
                  "depth or value_depth at d_idx, and the place is along another kind of axis");
    static_assert(Why != may_not_fit || can_be_stored<Why, Tensor>,
                  "attune: an integer is stored in elements of fewer bits; the formula states its limits: "
                  "clamp(as_integer(round(x)), -127, 127)");
    static_assert(Why != beside_precomputed || can_be_stored<Why, Tensor>,
                  "attune: a graph that stores has nothing precomputed(...) yet; store in a graph of its own, which is "
                  "called before");
    return Why == none;
}

/// The rules that no store can check alone.
class store_judge {
public:
    constexpr explicit store_judge(ir_builder& list) : list_(list) { fold(nodes(), varies_, what_varies); }

    constexpr void run() {
        for (int at = 0; at < list_.store_count && list_.unstorable == store_fault::none; ++at) {
            fault_ = store_fault::none;
            judge(list_.stores[at]);
            if (fault_ != store_fault::none)
                list_.unstorable = fault_, list_.fault_name = list_.inputs[tensor_of(nodes(), list_.stores[at])].name;
        }
    }

private:
    constexpr node_list nodes() const { return list_.instructions(); }
    constexpr void fail(store_fault why) {
        if (fault_ == store_fault::none) fault_ = why;
    }
    constexpr axis_kind along(const instruction& load, int axis) const {
        return list_.inputs[list_.nodes[load.arguments[0]].input].axes[axis].kind;
    }

    constexpr void judge(const store_declaration& store) {
        const instruction& place = list_.nodes[store.element];
        const unsigned positions = variable::batch | variable::head | variable::query | variable::channel;
        if (varies_[store.value].on & ~varies_[store.element].on & positions) fail(store_fault::in_one_place);
        const int channels = channel_axis(nodes(), store);
        for (int axis = 0; axis + 1 < place.argument_count; ++axis)
            if (axis != channels && varies_[place.arguments[axis + 1]].has(variable::channel))
                fail(store_fault::channels_astray);
        const element_type element = list_.inputs[list_.nodes[place.arguments[0]].input].element;
        const bool fits = integers_of(nodes(), list_.inputs, store.value).is_within(interval_of(element));
        if (place.kind == kind::integer && !fits) fail(store_fault::may_not_fit);
        for (const instruction& n : nodes())
            if (n.kind == kind::precomputed) fail(store_fault::beside_precomputed);

        node_table<bool> reached{};
        const stored_value written = value_of(nodes(), store);  // the element itself stays where it is not written
        reached[written.value] = true;
        if (written.has_condition()) reached[written.condition] = true;
        for (int i = 1; i < place.argument_count; ++i) reached[place.arguments[i]] = true;
        const axis_kind of_channels = channels < 0 ? axis_kind::free : along(place, channels);
        check_heads(place);
        for (node_id at = node_at(list_.node_count - 1); at >= 0; --at) {
            if (!reached[at]) continue;
            const instruction& n = list_.nodes[at];
            for (int i = 0; i < n.argument_count; ++i) reached[n.arguments[i]] = true;
            check_heads(n);
            if (n.op != operation::load) continue;
            for (int other = 0; other < list_.store_count; ++other)
                if (tensor_of(nodes(), list_.stores[other]) == list_.nodes[n.arguments[0]].input)
                    fail(store_fault::reads_what_is_stored);
            for (int axis = 0; axis + 1 < n.argument_count; ++axis) {
                const bool is_depth = along(n, axis) == axis_kind::depth || along(n, axis) == axis_kind::value_depth;
                if (is_depth && list_.nodes[n.arguments[axis + 1]].op == operation::d_idx &&
                    along(n, axis) != of_channels)
                    fail(store_fault::other_channels);
            }
        }
        if (list_.nodes[written.value].op == operation::h) fail(store_fault::of_a_query_head);
    }

    constexpr void check_heads(const instruction& n) {
        for (int i = 0; i < n.argument_count; ++i)
            if (list_.nodes[n.arguments[i]].op == operation::h &&
                (n.op != operation::load || i == 0 || along(n, i - 1) != axis_kind::key_head))
                fail(store_fault::of_a_query_head);
    }

    ir_builder& list_;
    node_table<dependences_of_node> varies_{};
    store_fault fault_{};
};

constexpr void judge_stores(ir_builder& list) {
    if (list.store_count > 0 && !list.too_long) store_judge(list).run();
}

}  // namespace detail

}  // namespace attune::dsl

#pragma GCC diagnostic pop
