#pragma once
#include <attune/dsl/terminals.hpp>

/// Which operands operators and functions take, the error for all others, and the node that is made.
namespace attune::dsl {

template <class... T>
concept involves_graph = (operand<T> && ...) && (expression<T> || ...);

namespace detail {

/// Scores combine with plain numbers before the softmax, rows and outputs after it, where no key is left.
template <kind Is, operation Op, unsigned Uses, class... A> constexpr auto number_node(const A&... a) {
    if constexpr (Is == kind::scores && (Uses & use::late)) {
        static_assert(free_of<Uses, use::late>,
                      "attune: scores meet a row or an output; those are known only after all scores of a row");
        return rejected{};
    } else if constexpr (Is == kind::scores && (Uses & use::channel)) {
        static_assert(free_of<Uses, use::channel>,
                      "attune: scores have no channel; d_idx stands in queries(...), keys(...), values(...), "
                      "as_output(...) and beside outputs");
        return rejected{};
    } else if constexpr ((Is == kind::row || Is == kind::output) && (Uses & use::key)) {
        static_assert(free_of<Uses, use::key>,
                      "attune: a row or an output meets what differs from key to key, such as kv_idx or scores; reduce "
                      "that over the keys first");
        return rejected{};
    } else
        return make<Is, Op>(a...);
}

template <class... A> inline constexpr unsigned uses_in_all = (0u | ... | uses_in<A>);

// Echoed with what was found.
template <kind... Found> inline constexpr bool linear_in_its_state = !((Found == kind::state) || ...);
template <class... A> inline constexpr bool is_of_a_step = ((kind_of<A> == kind::state) || ...);

/// Operations that may not take S, or a row read from it.
template <class... A> constexpr rejected not_linear() {
    static_assert(linear_in_its_state<kind_of<A>...>,
                  "attune: a step is linear in its state: a state is added, multiplied by a real, or read by a row");
    return {};
}

template <operation Op, class A, class B> constexpr auto arithmetic(const A& a, const B& b) {
    constexpr kind x = kind_of<A>, y = kind_of<B>;
    if constexpr (is_rejected<A> || is_rejected<B>)
        return rejected{};
    else if constexpr (is_number(x) && is_number(y))
        return number_node<joined(x, y, uses_in_all<A, B>), Op, uses_in_all<A, B>>(a, b);
    else if constexpr (is_of_a_step<A, B>)
        return not_linear<A, B>();
    else if constexpr (x == kind::condition || y == kind::condition) {
        static_assert(number<x> && number<y>, "attune: a condition is used as a number; write where(condition, a, b)");
        return rejected{};
    } else if constexpr (x == kind::weights || y == kind::weights) {
        static_assert(number<x> && number<y>,
                      "attune: weights are multiplied and divided by numbers, and nothing else; other arithmetic "
                      "belongs to the scores before softmax or to the output");
        return rejected{};
    } else {
        static_assert(number<x> && number<y>,
                      "attune: arithmetic on something that is not a number; a tensor is read at indices, such as "
                      "slopes(h), and q meets k as q * t(k)");
        return rejected{};
    }
}

template <operation Op, class A, class B> constexpr auto integer_arithmetic(const A& a, const B& b) {
    constexpr kind x = kind_of<A>, y = kind_of<B>;
    if constexpr (is_rejected<A> || is_rejected<B>)
        return rejected{};
    else if constexpr (x == kind::integer && y == kind::integer)
        return make<kind::integer, Op>(a, b);
    else {
        static_assert(
            integer_kind<x> && integer_kind<y>,
            "attune: %, ^, &, |, ~, << and >> are for integers; of two conditions &, | and ^ are the logical ones");
        return rejected{};
    }
}

template <operation Op, class A, class B> constexpr auto comparison(const A& a, const B& b) {
    constexpr kind x = kind_of<A>, y = kind_of<B>;
    if constexpr (is_rejected<A> || is_rejected<B>)
        return rejected{};
    else if constexpr (is_number(x) && is_number(y)) {
        if constexpr ((uses_in_all<A, B> & use::key) && (uses_in_all<A, B> & use::late)) {
            static_assert(free_of<uses_in_all<A, B>, use::key>,
                          "attune: a row or an output meets what differs from key to key, such as kv_idx or scores; "
                          "reduce that over the keys first");
            return rejected{};
        } else
            return make<kind::condition, Op>(a, b);
    } else if constexpr (is_of_a_step<A, B>)
        return not_linear<A, B>();
    else if constexpr (x == kind::condition || y == kind::condition) {
        static_assert(number<x> && number<y>,
                      "attune: a condition is compared with a number; a <= x <= b is written a <= x && x <= b");
        return rejected{};
    } else {
        static_assert(
            number<x> && number<y>,
            "attune: a comparison takes numbers; a tensor is read at indices first, such as doc(q_idx) == doc(kv_idx)");
        return rejected{};
    }
}

template <operation Op, class A, class B> constexpr auto logical(const A& a, const B& b) {
    constexpr kind x = kind_of<A>, y = kind_of<B>;
    if constexpr (is_rejected<A> || is_rejected<B>)
        return rejected{};
    else if constexpr (!(a_condition_of_the_graph<A> && a_condition_of_the_graph<B>)) {
        static_assert(a_condition_of_the_graph<A> && a_condition_of_the_graph<B>,
                      "attune: a bool of C++ is the same for every query and key; a condition compares indices, as in "
                      "q_idx >= kv_idx");
        return rejected{};
    } else if constexpr (x == kind::condition && y == kind::condition)
        return make<kind::condition, Op>(a, b);
    else {
        static_assert(condition<x> && condition<y>,
                      "attune: &&, || and ! join conditions; did you forget a comparison, such as q_idx >= kv_idx?");
        return rejected{};
    }
}

/// Whether two conditions differ, or whether they agree.
template <bool Differ, class A, class B> constexpr auto differing(const A& a, const B& b) {
    if constexpr (is_rejected<A> || is_rejected<B>)
        return rejected{};
    else if constexpr (!(a_condition_of_the_graph<A> && a_condition_of_the_graph<B>)) {
        static_assert(a_condition_of_the_graph<A> && a_condition_of_the_graph<B>,
                      "attune: a bool of C++ is the same for every query and key; a condition compares indices, as in "
                      "q_idx >= kv_idx");
        return rejected{};
    } else {
        const auto other = make<kind::condition, operation::logical_not>(b);
        if constexpr (Differ)
            return make<kind::condition, operation::where>(a, other, b);
        else
            return make<kind::condition, operation::where>(a, b, other);
    }
}

template <operation Op, class A> constexpr auto real_function(const A& a) {
    if constexpr (is_rejected<A>)
        return rejected{};
    else if constexpr (is_number(A::is))
        return make<joined(A::is, kind::real, A::uses), Op>(a);
    else if constexpr (is_of_a_step<A>)
        return not_linear<A>();
    else {
        static_assert(number<A::is>, "attune: a function of numbers and scores is applied to something else");
        return rejected{};
    }
}

/// An operation on two numbers, computed in reals.
template <operation Op, class A, class B> constexpr auto real_function(const A& a, const B& b) {
    constexpr kind x = kind_of<A>, y = kind_of<B>;
    if constexpr (is_rejected<A> || is_rejected<B>)
        return rejected{};
    else if constexpr (is_number(x) && is_number(y)) {
        constexpr unsigned uses = uses_in_all<A, B>;
        return number_node<joined(joined(x, y, uses), kind::real, uses), Op, uses>(a, b);
    } else if constexpr (is_of_a_step<A, B>)
        return not_linear<A, B>();
    else {
        static_assert(number<x> && number<y>, "attune: a function of numbers and scores is applied to something else");
        return rejected{};
    }
}

template <operation Op, class A> constexpr auto keeping_function(const A& a) {  // integers stay integers
    if constexpr (is_rejected<A>)
        return rejected{};
    else if constexpr (is_number(A::is))
        return make<A::is, Op>(a);
    else if constexpr (is_of_a_step<A>)
        return not_linear<A>();
    else {
        static_assert(number<A::is>, "attune: a function of numbers and scores is applied to something else");
        return rejected{};
    }
}

// Echoed when two tensors meet that are not queries and keys, or weights and values.
template <axis_kind Length, axis_kind Depth>
inline constexpr bool queries_over = Length == axis_kind::query && Depth == axis_kind::depth;
template <axis_kind Length, axis_kind Depth>
inline constexpr bool keys_over = Length == axis_kind::key && Depth == axis_kind::depth;
template <axis_kind Length, axis_kind Depth>
inline constexpr bool values_over = Length == axis_kind::key && Depth == axis_kind::value_depth;

/// The last two axes of an input, or of a tensor computed by queries, keys or values.
template <class T>
inline constexpr axis_kind length_axis = T::op == operation::queries ? axis_kind::query : axis_kind::key;
template <class T>
inline constexpr axis_kind depth_axis = T::op == operation::values ? axis_kind::value_depth : axis_kind::depth;
template <name Label, element_type Element, class... Axes>
inline constexpr axis_kind length_axis<input_tensor<Label, Element, Axes...>> =
    sizeof...(Axes) == 4 ? input_tensor<Label, Element, Axes...>::declaration.axes[2].kind : axis_kind::free;
template <name Label, element_type Element, class... Axes>
inline constexpr axis_kind depth_axis<input_tensor<Label, Element, Axes...>> =
    sizeof...(Axes) == 4 ? input_tensor<Label, Element, Axes...>::declaration.axes[3].kind : axis_kind::free;

template <class A, class K>
constexpr auto contraction(const A& a, const node<kind::transposed, operation::transpose, K>& b) {
    if constexpr (!queries_over<length_axis<A>, depth_axis<A>>) {
        static_assert(queries_over<length_axis<A>, depth_axis<A>>,
                      "attune: scores are q * t(k); the left factor is not a tensor (batch, head, query, depth)");
        return rejected{};
    } else if constexpr (!keys_over<length_axis<K>, depth_axis<K>>) {
        static_assert(keys_over<length_axis<K>, depth_axis<K>>,
                      "attune: two tensors are contracted over different axes; scores are q * t(k), k a tensor (batch, "
                      "head, key, depth)");
        return rejected{};
    } else
        return make<kind::scores, operation::contract>(a, b);
}

/// Weights times a number, or divided by one; the number may vary from pair to pair.
template <operation Op, class W, class N> constexpr auto scaled_weights(const W& w, const N& n) {
    constexpr unsigned uses = uses_in<N>;
    if constexpr (!is_plain(kind_of<N>)) {
        static_assert(plain_number<kind_of<N>>,
                      "attune: weights are multiplied and divided by plain numbers of (b, h, q_idx, kv_idx); a row or "
                      "an output belongs to weights * v");
        return rejected{};
    } else if constexpr (uses & use::channel) {
        static_assert(free_of<uses, use::channel>,
                      "attune: weights have no channel; d_idx stands in queries(...), keys(...), values(...), "
                      "as_output(...) and beside outputs");
        return rejected{};
    } else
        return make<kind::weights, Op>(w, n);
}

template <class A, class B> constexpr auto product(const A& a, const B& b) {
    constexpr kind x = kind_of<A>, y = kind_of<B>;
    if constexpr (is_rejected<A> || is_rejected<B>)
        return rejected{};
    else if constexpr (is_number(x) && is_number(y))
        return arithmetic<operation::multiply>(a, b);
    else if constexpr (x == kind::tensor && y == kind::transposed)
        return contraction(a, b);
    else if constexpr (x == kind::integer && y == kind::transposed) {
        static_assert(
            tensor_kind<x>,
            "attune: scores are q * t(k), and the left factor is an integer; a parameter or an index called q "
            "hides the tensor, which is attune::dsl::q");
        return rejected{};
    } else if constexpr (x == kind::weights && y == kind::tensor) {
        if constexpr (!values_over<length_axis<B>, depth_axis<B>>) {
            static_assert(values_over<length_axis<B>, depth_axis<B>>,
                          "attune: weights weigh the values of a tensor (batch, head, key, value_depth), such as v");
            return rejected{};
        } else
            return make<kind::output, operation::weighted_sum>(a, b);
    } else if constexpr (x == kind::tensor && y == kind::weights) {
        static_assert(tensor_kind<y>,
                      "attune: a tensor is multiplied by weights; the weighted sum is written weights * v");
        return rejected{};
    } else if constexpr (x == kind::scores && y == kind::tensor) {
        static_assert(weights_kind<x>,
                      "attune: scores are multiplied by a tensor without normalisation; wrap them in softmax(...)");
        return rejected{};
    } else if constexpr (x == kind::tensor && y == kind::tensor) {
        static_assert(y == kind::transposed,
                      "attune: two tensors are multiplied; the contraction of q and k is written q * t(k)");
        return rejected{};
    } else if constexpr (x == kind::weights && is_number(y))
        return scaled_weights<operation::multiply>(a, b);
    else if constexpr (is_number(x) && y == kind::weights)
        return scaled_weights<operation::multiply>(b, a);
    else
        return arithmetic<operation::multiply>(a, b);
}

template <class A, class B> constexpr auto quotient(const A& a, const B& b) {
    constexpr kind x = kind_of<A>, y = kind_of<B>;
    if constexpr (x == kind::weights && is_number(y))
        return scaled_weights<operation::divide>(a, b);
    else
        return arithmetic<operation::divide>(a, b);
}

}  // namespace detail

}  // namespace attune::dsl
