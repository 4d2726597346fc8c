#pragma once
#include <attune/dsl/arguments.hpp>
#include <attune/dsl/name.hpp>
#include <attune/dsl/node.hpp>

#include <limits>

namespace attune::dsl {

// Echoed with an invalid name.
template <name Input>
inline constexpr bool an_identifier = [] {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    for (char c : Input.view())
        if (!letter(c) && !(c >= '0' && c <= '9')) return false;
    return !Input.view().empty() && letter(Input.view()[0]);
}();

// --- indices: which pair of query and key a score belongs to
template <operation Op> using index_node = node<kind::integer, Op>;
inline constexpr index_node<operation::b> b{};            ///< batch element
inline constexpr index_node<operation::h> h{};            ///< query head
inline constexpr index_node<operation::q_idx> q_idx{};    ///< query position, from 0
inline constexpr index_node<operation::kv_idx> kv_idx{};  ///< key position, from 0
inline constexpr index_node<operation::d_idx> d_idx{};    ///< channel of a computed tensor or output, from 0

/// The index that a sum or any runs over: `n = bound_index<"n">`, `sum(n, 8, table(h, n))`.
template <name Label> struct bound_index_node {
    static_assert(an_identifier<Label>, "attune: the name of a bound index is an identifier, as of a variable");
    static constexpr kind is = kind::integer;
    static constexpr operation op = operation::bound;
    static constexpr unsigned uses = use::bound;
    static constexpr std::string_view label = Label.view();
};
template <name Label> inline constexpr bound_index_node<Label> bound_index{};

// --- numbers of the call, from the shapes of q, k and v
inline constexpr index_node<operation::depth> depth{};              ///< of q and k
inline constexpr index_node<operation::value_depth> value_depth{};  ///< of v and out
inline constexpr index_node<operation::query_length> query_length{};
inline constexpr index_node<operation::key_length> key_length{};
inline constexpr index_node<operation::heads> heads{};  ///< query heads
inline constexpr index_node<operation::key_heads> key_heads{};
inline constexpr index_node<operation::batches> batches{};

/// `where(condition, score, -inf)` masks; every finite value is a score.
inline constexpr constant<kind::real> inf{std::numeric_limits<double>::infinity()};

// --- axes: what an input is declared over
template <axis_kind Is, name Label = "", int Length = 0, axis_kind Counts = axis_kind::free> struct axis_node {
    static constexpr axis_declaration axis{Is, Is == axis_kind::free ? Label.view() : name_of(Is), Length, Counts};
};
inline constexpr axis_node<axis_kind::batch> batch{};
inline constexpr axis_node<axis_kind::head> head{};
inline constexpr axis_node<axis_kind::key_head> key_head{};
inline constexpr axis_node<axis_kind::query> query{};
inline constexpr axis_node<axis_kind::key> key{};
inline constexpr axis_node<axis_kind::position> position{};  ///< read at q_idx and at kv_idx
/// A table's own axis. `axis<"byte", 34>` is 34 long in every call.
template <name Label, int Length = 0> inline constexpr axis_node<axis_kind::free, Label, Length> axis{};
/// The axis of blocks of so many channels, which a depth is a multiple of: `blocks_of<"block", 32>(depth)`.
template <name Label, int Channels, operation Along>
    requires(Along == operation::depth || Along == operation::value_depth)
constexpr auto blocks_of(node<kind::integer, Along>) {
    static_assert(Channels > 0, "attune: a block has one channel at least");
    constexpr axis_kind counts = Along == operation::depth ? axis_kind::depth : axis_kind::value_depth;
    return axis_node<axis_kind::free, Label, Channels, counts>{};
}

/// The axes that an input may be declared over: those above, depth and value_depth.
template <class T> inline constexpr axis_declaration axis_of{axis_kind::free, ""};
template <axis_kind Is, name Label, int Length, axis_kind Counts>
inline constexpr axis_declaration axis_of<axis_node<Is, Label, Length, Counts>> =
    axis_node<Is, Label, Length, Counts>::axis;
template <> inline constexpr axis_declaration axis_of<index_node<operation::depth>>{axis_kind::depth, "depth"};
template <>
inline constexpr axis_declaration axis_of<index_node<operation::value_depth>>{axis_kind::value_depth, "value_depth"};
template <class T> inline constexpr bool is_axis = !axis_of<T>.name.empty();

constexpr kind kind_of_element(element_type e) {
    switch (e) {
        case element_type::boolean: return kind::condition;
        case element_type::i32:
        case element_type::u8:
        case element_type::i8:
        case element_type::i64:
        case element_type::i16: return kind::integer;
        default: return kind::real;
    }
}

// Echoed by the compiler when an index does not fit its axis.
template <name Input, std::size_t Declared, std::size_t Given>
inline constexpr bool indices_match_rank = Declared == Given;
template <class... Index> inline constexpr bool indices_are_of_the_language = (operand<Index> && ...);
template <name Input, std::size_t Axes> inline constexpr bool has_one_to_eight_axes = Axes >= 1 && Axes <= max_rank;
template <name Input, axis_kind Axis, operation Index>
inline constexpr bool index_matches_axis = [] {
    // Only a bare index can be on the wrong axis; a computed one is taken at its word.
    constexpr unsigned index =
        about(Index).passes_on == passes_on::all && about(Index).most == 0 ? about(Index).adds : 0;
    if (Axis == axis_kind::free) return true;
    if (index == variable::batch) return Axis == axis_kind::batch;
    if (index == variable::head) return Axis == axis_kind::head || Axis == axis_kind::key_head;
    if (index == variable::query) return Axis == axis_kind::query || Axis == axis_kind::position;
    if (index == variable::key) return Axis == axis_kind::key || Axis == axis_kind::position;
    if (index == variable::channel) return Axis == axis_kind::depth || Axis == axis_kind::value_depth;
    if (index == variable::value) return Axis == axis_kind::value_depth;
    return true;
}();

/// A tensor read at some of its axes; the last index makes it a number.
template <class Tensor, class... I> struct partly_read {
    static constexpr kind is = kind::tensor;
    static constexpr operation op = operation::load;
    static constexpr unsigned uses = 0;
    Tensor tensor;
    detail::children_of<I...> indices;
    template <operand Next> constexpr auto operator[](const Next& next) const {
        return indices.unpack([&](const auto&... i) {
            if constexpr (sizeof...(I) + 1 == Tensor::rank)
                return tensor(i..., next);
            else
                return partly_read<Tensor, I..., Next>{tensor, {i..., next}};
        });
    }
};

namespace detail {
/// What `to(i...)` makes of a tensor's indices that fit its axes; else what is rejected.
template <name Label, class... Axes> struct over_axes {
    template <class To, class... I> static constexpr auto read(const To& to, const I&... i) {
        if constexpr ((is_rejected<I> || ...))
            return rejected{};
        else if constexpr (sizeof...(I) != sizeof...(Axes)) {
            static_assert(indices_match_rank<Label, sizeof...(Axes), sizeof...(I)>,
                          "attune: a tensor is indexed by another number of indices than it has axes");
            return rejected{};
        } else if constexpr (!(integer_kind<kind_of<I>> && ...)) {
            static_assert((integer_kind<kind_of<I>> && ...),
                          "attune: a tensor is indexed by something that is not an integer; indices are integers such "
                          "as h, q_idx or q_idx / 16");
            return rejected{};
        } else if constexpr (!(index_matches_axis<Label, axis_of<Axes>.kind, operation_of<I>> && ...)) {
            static_assert((index_matches_axis<Label, axis_of<Axes>.kind, operation_of<I>> && ...),
                          "attune: a tensor is indexed by other axes than it was declared with");
            return rejected{};
        } else
            return to(i...);
    }
};
}  // namespace detail

/// A tensor that the caller passes: `slopes = input<"slopes", f32>(head)`. Read at indices, `slopes(h)`, it is a
/// number, or a condition if its elements are boolean. A call passes it as `slopes = S`.
template <name Label, element_type Element, class... Axes> struct input_tensor {
    static constexpr kind is = kind::tensor;
    static constexpr operation op = operation::input;
    static constexpr unsigned uses = 0;
    static constexpr std::size_t rank = sizeof...(Axes);
    static constexpr std::string_view label = Label.view(), derivative = derivative_name<Label>.view();
    static constexpr input_declaration declaration{Label.view(), Element, false, sizeof...(Axes), {axis_of<Axes>...}};

    template <operand... I> constexpr auto operator()(const I&... i) const {
        return detail::over_axes<Label, Axes...>::read(
            [&](const auto&... at) { return make<kind_of_element(Element), operation::load>(*this, at...); }, i...);
    }

    template <class... I>
        requires(!(operand<I> && ...))
    constexpr auto operator()(const I&...) const {
        static_assert(
            indices_are_of_the_language<I...>,
            "attune: a tensor is indexed by something that is not of attune::dsl; a name of your own may hide "
            "an index, such as attune::dsl::h: write that, or `using attune::dsl::h;` beside the formula");
        return rejected{};
    }

    /// One index for each axis, as in PyTorch: bias[b][h][q_idx][kv_idx] is bias(b, h, q_idx, kv_idx).
    template <operand I> constexpr auto operator[](const I& i) const {
        if constexpr (sizeof...(Axes) == 1)
            return (*this)(i);
        else
            return partly_read<input_tensor, I>{*this, {i}};
    }

    template <class Value> constexpr auto operator=(Value value) const { return detail::bind<Label>(value); }
};

/// Declares a tensor input by name, element type and axes, outermost first: `input<"bias", f32>(head, query, key)`.
template <name Label, element_type Element, class... Axes> constexpr auto input(Axes...) {
    static_assert(an_identifier<Label>, "attune: the name of an input is an identifier, as of a variable");
    static_assert((is_axis<Axes> && ...),
                  "attune: an input is declared over axes: batch, head, key_head, query, key, position, depth, "
                  "value_depth or axis<\"name\">; a name of your own may hide one, such as attune::dsl::batch");
    static_assert(Element != element_type::f64,
                  "attune: f64 is for numbers of the call, scalar<\"x\", f64>; a tensor of reals is f32, bf16, f16, "
                  "f8_e4m3 or f8_e5m2");
    if constexpr (!(is_axis<Axes> && ...))
        return rejected{};
    else if constexpr (!has_one_to_eight_axes<Label, sizeof...(Axes)>) {
        static_assert(has_one_to_eight_axes<Label, sizeof...(Axes)>,
                      "attune: an input has one to eight axes; a single number is declared with scalar<\"name\", "
                      "type>, or, if it is "
                      "learned, over axis<\"one\"> and read at 0");
        return rejected{};
    } else
        return input_tensor<Label, Element, Axes...>{};
}

/// A number that the caller passes: `w = scalar<"w", i32>`, at the call `w = 256`.
template <name Label, element_type Element> struct scalar_number {
    static_assert(an_identifier<Label>, "attune: the name of a scalar is an identifier, as of a variable");
    static_assert(Element == element_type::i32 || Element == element_type::f32 || Element == element_type::f64,
                  "attune: a scalar is i32, f32 or f64");
    static constexpr kind is = kind_of_element(Element);
    static constexpr operation op = operation::scalar;
    static constexpr unsigned uses = 0;
    static constexpr std::string_view label = Label.view();
    static constexpr input_declaration declaration{Label.view(), Element, true, 0, {}};

    template <class Value> constexpr auto operator=(Value value) const { return detail::bind<Label>(value); }
};
template <name Label, element_type Element> inline constexpr scalar_number<Label, Element> scalar{};

// --- the three tensors of attention; element types and depths are chosen when kernels are compiled
inline constexpr input_tensor<"q", element_type::any, axis_node<axis_kind::batch>, axis_node<axis_kind::head>,
                              axis_node<axis_kind::query>, index_node<operation::depth>>
    q{};  // (b, h, lq, d)
inline constexpr input_tensor<"k", element_type::any, axis_node<axis_kind::batch>, axis_node<axis_kind::key_head>,
                              axis_node<axis_kind::key>, index_node<operation::depth>>
    k{};  // (b, hk, lk, d)
inline constexpr input_tensor<"v", element_type::any, axis_node<axis_kind::batch>, axis_node<axis_kind::key_head>,
                              axis_node<axis_kind::key>, index_node<operation::value_depth>>
    v{};  // (b, hk, lk, dv)
static_assert(decltype(q)::declaration == given_inputs[0] && decltype(k)::declaration == given_inputs[1] &&
              decltype(v)::declaration == given_inputs[2]);

/// The number of keys in use of each batch element, i32 (batch). Optional in every call; key_length if it is not
/// passed. Keys beyond it are never read.
struct kv_lengths_input {
    static constexpr kind is = kind::tensor;
    static constexpr operation op = operation::kv_lengths;
    static constexpr unsigned uses = 0;
    static constexpr std::string_view label = "kv_lengths";
    constexpr auto operator()(index_node<operation::b>) const { return node<kind::integer, operation::kv_lengths>{}; }
    template <class... I> constexpr auto operator()(I...) const {
        static_assert(as_many_as_it_takes<sizeof...(I)>,
                      "attune: kv_lengths has one axis, the batch: it is read as kv_lengths(b)");
        return rejected{};
    }
    template <class Value> constexpr auto operator=(Value value) const { return detail::bind<"kv_lengths">(value); }
};
inline constexpr kv_lengths_input kv_lengths{};

// Echoed with how many indices there are.
template <std::size_t Given> inline constexpr bool belongs_to_the_call = false;

/// Packed queries: the queries of all sequences lie one after another along the query axis, with batch extent 1, and
/// sequence b has those from cu_seqlens_q[b] to cu_seqlens_q[b + 1]. i32 (batch + 1), from 0 to the number of queries.
/// Optional in every call. No formula reads it: in a formula b is the sequence of a query, and q_idx its place in that
/// sequence.
struct cu_seqlens_q_input {
    static constexpr std::string_view label = "cu_seqlens_q";
    template <class... I> constexpr auto operator()(I...) const {
        static_assert(
            belongs_to_the_call<sizeof...(I)>,
            "attune: cu_seqlens_q is passed to a call and not read by a formula; there b is the sequence of a "
            "query, q_idx its place in it, and query_length how many it has");
        return rejected{};
    }
    template <class Value> constexpr auto operator=(Value value) const { return detail::bind<"cu_seqlens_q">(value); }
};
inline constexpr cu_seqlens_q_input cu_seqlens_q{};

/// Arguments that calls of every variant may pass. A formula may have an input of its own called cu_seqlens_q, as masks
/// over documents do. Its calls take that input, and no packed queries.
constexpr bool is_built_in(std::string_view name) {
    return name == kv_lengths_input::label || name == cu_seqlens_q_input::label;
}

/// The length of an input's axis, 0 the outermost: `extent<2>(k)` is key_length. It is a number of the call, as lengths
/// and scalars are.
template <int Axis, class Tensor> struct extent_node {
    static constexpr kind is = kind::integer;
    static constexpr operation op = operation::extent;
    static constexpr unsigned uses = 0;
    static constexpr int axis = Axis;
    Tensor tensor;
};
template <int Axis, class Tensor> inline constexpr bool has_axis = false;
template <int Axis, name Label, element_type Element, class... Axes>
inline constexpr bool has_axis<Axis, input_tensor<Label, Element, Axes...>> =
    Axis >= 0 && Axis < static_cast<int>(sizeof...(Axes));

template <int Axis, expression T> constexpr auto extent(T tensor) {
    if constexpr (is_rejected<T>)
        return rejected{};
    else if constexpr (!has_axis<Axis, T>) {
        static_assert(
            has_axis<Axis, T>,
            "attune: extent<n>(tensor) is the length of axis n of an input, 0 the outermost; this has no such axis");
        return rejected{};
    } else
        return extent_node<Axis, T>{tensor};
}

template <expression T> constexpr auto extent(T) {
    static_assert(has_axis<-1, T>, "attune: extent is told which axis: extent<1>(tensor), 0 the outermost");
    return rejected{};
}

/// A name of an output. In `outputs(out = ..., lse = ...)` it names a part of the graph, in a call the tensor to write.
template <name Label> struct output_name {
    static_assert(an_identifier<Label>, "attune: the name of an output is an identifier, as of a variable");
    static constexpr std::string_view label = Label.view();
    template <class Value> constexpr auto operator=(Value value) const { return detail::bind<Label>(value); }
};
template <name Label> inline constexpr output_name<Label> output{};
inline constexpr output_name<"out"> out{};
inline constexpr output_name<"lse"> lse{};

/// d(q): the gradient of q, called dq; d(out): the cotangent of out, dout. In the calls of a gradient.
template <name Label, element_type Element, class... Axes>
constexpr output_name<derivative_name<Label>> d(const input_tensor<Label, Element, Axes...>&) {
    return {};
}
template <name Label> constexpr output_name<derivative_name<Label>> d(const output_name<Label>&) { return {}; }
inline constexpr output_name<"dq"> dq{};
inline constexpr output_name<"dk"> dk{};
inline constexpr output_name<"dv"> dv{};
inline constexpr output_name<"dout"> dout{};
inline constexpr output_name<"dlse"> dlse{};

}  // namespace attune::dsl
