#pragma once
#include <attune/ir/element_type.hpp>
#include <attune/ir/node_id.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

/// A graph as a flat list: every distinct node once, arguments before their users.
///
/// A graph is a value whose type nests as deep as its formula (node.hpp). `ir_of<Graph>` folds it, once and at compile
/// time, into this list. Everything else - text, fingerprint, required inputs, lowering, block masks, reference
/// evaluation - is ordinary code over a `graph_ir`, without templates.
namespace attune {

/// What a node stands for. The grammar of the language is stated on kinds (operators.hpp).
enum class kind : std::uint8_t {
    tensor,      ///< q, k, v or a declared input, not yet indexed
    transposed,  ///< t(k)
    integer,     ///< an index, a length, an integer constant, scalar or element: i32 arithmetic, `/` and `%` round down
    real,        ///< f32 arithmetic
    condition,   ///< true = visible
    scores,      ///< one real a (batch, head, query, key)
    weights,     ///< one real for each (batch, head, query, key), which multiplies a value: scores, normalised over the
                 ///< keys or not
    output,      ///< one real for each (batch, head, query, value depth)
    row,         ///< one real for each (batch, head, query): log-sum-exp, row maximum
    column,      ///< one real for each (batch, head, key): weights summed over the queries
    head_mean,   ///< one real for each (batch, query, key): weights averaged over the heads
    tokens,    ///< one real for each (batch, query, channel), of its own width: passed from one attention of a model to
               ///< the next
    gradient,  ///< one real for each element of an input: the derivative of a loss by that element
    precomputed,  ///< one real or condition for each (batch, head, bound indices): known before the first score
    state,   ///< what the step of a recurrence computes with, a state or a row read from it: in formulas only, in no
             ///< list
    states,  ///< the state of a recurrence after each token: a real for each (batch, head, query, depth, value depth)
    last_state,  ///< the one after the last token: (batch, head, depth, value depth)
};

constexpr bool is_number(kind k) {
    return k == kind::integer || k == kind::real || k == kind::scores || k == kind::row || k == kind::output;
}
constexpr bool is_real(kind k) { return is_number(k) && k != kind::integer; }

enum class operation : std::uint8_t {
    // terminals
    constant,  ///< `integer` or `number` holds the value, `kind` says which
    b,
    h,
    q_idx,
    kv_idx,
    d_idx,  ///< channel: of q and k before the contraction, of v and the outputs after it
    bound,  ///< the index that a sum or any runs over; `integer` is its position in graph_ir::indices
    depth,
    value_depth,
    query_length,
    key_length,
    heads,
    key_heads,
    batches,
    input,       ///< a tensor; `input` is its position in graph_ir::inputs
    scalar,      ///< a run-time number; `input` is its position in graph_ir::inputs
    kv_lengths,  ///< keys in use of batch element b: the built-in optional input, key_length unless passed
    // tensors
    load,  ///< arguments: the tensor (an input, tokens, an output or precomputed), then one integer for each axis,
           ///< outermost first, clamped to the axis
    transpose,
    contract,  ///< q * t(k): scores
    queries,   ///< real over (b, h, q_idx, d_idx)[, length[, heads, depth]] -> tensor (batch, head, query, depth);
               ///< numbers of the call: its query_length, heads and depth
    keys,  ///< real over (b, h, kv_idx, d_idx)[, length[, heads, depth]] -> tensor (batch, query head, key, depth); the
           ///< length is its key_length
    values,  ///< real over (b, h, kv_idx, d_idx)[, length[, heads, value depth]] -> tensor (batch, query head, key,
             ///< value depth); the length is its key_length
    extent,  ///< a tensor -> integer: how long its axis number `integer` is (0: outermost)
    // computed in full before the first score: numbers of blocks, such as means of their keys, and which of them are
    // the largest
    precomputed,  ///< real over (b, h, bound indices), then a bound index and its extent (a number of the call) for
                  ///< each further axis -> precomputed (batch, head, indices)
    top_k,        ///< precomputed reals, count (a number of the call) -> precomputed conditions of the same axes: which
                  ///< elements are among the largest along the last axis. Of equal ones the first; NaN is the largest,
                  ///< and -infinity never chosen
    top_p,        ///< the same of a share (a real of the call): the largest ones, in that order, as many as it takes
                  ///< for their sum to be that share of the sum of all, where negative ones and NaN count as 0
    // over a small run-time extent. Arguments: a bound index, its extent (a number of the call), what is joined for
    // index = 0 .. extent - 1
    sum,      ///< integers or reals; 0 over nothing
    any,      ///< conditions; false over nothing
    largest,  ///< reals; masked over nothing
    // pointwise, on integers and reals (both arguments alike; to_real is explicit in the list) and scores
    to_real,     ///< integer or condition -> real
    to_integer,  ///< condition -> integer (true = 1); real -> integer rounds toward zero
    negate,
    absolute,
    exp,
    log,
    tanh,
    erf,
    sqrt,
    rsqrt,
    sin,
    cos,
    tan,
    asin,
    acos,
    atan,
    sinh,
    cosh,
    exp2,
    expm1,
    log1p,
    log2,
    sigmoid,
    floor,
    round,  ///< to the nearest integer, half to the even one
    trunc,  ///< toward zero
    sign,   ///< 1, 0 or -1
    atan2,
    pow,
    fmod,         ///< sign of the dividend, as C's
    is_nan,       ///< real -> condition
    is_infinite,  ///< real -> condition; true where masked
    add,
    subtract,
    multiply,
    divide,     ///< integers: rounds down; reals: exact
    remainder,  ///< integers only, sign of the divisor (-1 % 4 = 3)
    minimum,
    maximum,
    bit_and,
    bit_or,
    bit_xor,
    shift_left,
    shift_right,  ///< integers by 0 .. 31 bits; to the right the sign is kept
    same,         ///< the first of two numbers of the call that must be equal; a call where they differ is refused
    where,        ///< condition, value if true, value if false
    // conditions
    equal,
    not_equal,
    less,
    less_equal,
    greater,
    greater_equal,
    logical_and,
    logical_or,
    logical_not,
    keep,  ///< p, seed, upper half of the seed[, b, h, q, k] -> condition of (b, h, q_idx, kv_idx), or of the four
           ///< integers: false with probability p (random.hpp of each room)
    // attention
    mask,     ///< scores, condition -> scores
    softmax,  ///< scores[, sink] -> weights, over the keys; the sink, a real of (b, h, q_idx), joins the denominator
              ///< only
    unnormalized,      ///< scores -> weights as they are, 0 where masked
    in_u8,             ///< weights -> weights that kernels may round to 255 steps of the largest in a block of keys
    in_i16,            ///< the same of 32767 steps
    weighted_sum,      ///< weights, v -> output
    log_sum_exp,       ///< scores[, sink] -> row; -infinity over nothing
    row_maximum,       ///< scores -> row, of the visible keys; -infinity over nothing
    row_sum,           ///< weights -> row, over the keys; 0 over nothing
    sum_over_queries,  ///< weights -> column
    mean_over_heads,   ///< weights -> head_mean
    as_row,            ///< real over (b, h, q_idx) -> row
    as_output,         ///< real over (b, h, q_idx, d_idx) -> output
    tokens,            ///< real over (b, q_idx, d_idx), width[, length] -> tokens; both are numbers of the call. Of a
                       ///< length of their own, q_idx counts to it
    // gradients: made by differentiate.hpp, not written by hand
    each,     ///< a bound index, its extent, real -> real at each value of the index; only below a deposit
    deposit,  ///< the transpose of load. Arguments: a real, then one integer an axis of input number `input`. The
              ///< gradient's element at these indices is the sum of the real over every (b, h, q_idx), every index of
              ///< an `each` above it and, if `integer` is 1, every kv_idx; masked pairs add nothing. If it is 2, of
              ///< no q_idx but 0: of a state before the first token
    // recurrences: recurrence.hpp
    value_idx,    ///< the value channel of a state's element; d_idx is the channel of the keys
    recurrence,   ///< reals and values of a step, in the order of recurrence_arguments -> states
    read_states,  ///< a row, real over (b, h, q_idx, d_idx), and states -> output: the row times each token's state
    earlier,      ///< states -> states: those before each token
    last,         ///< states -> last_state
    // their gradients: made by differentiate.hpp, not written by hand
    state_cotangents,  ///< states of a recurrence, the cotangent of the last one (real over (b, h, d_idx, value_idx))[,
                       ///< a
                       ///< row that reads them, the cotangent of what it reads (real over (b, h, q_idx, d_idx))] ->
                       ///< states: the cotangents of each
    part_cotangent,  ///< these, then the channel and, of an initial state, the value channel -> real: the cotangent of
                     ///< a part of the step, number `integer` of recurrence_arguments, or of the row that reads
    from_bits,       ///< integer -> integer or real: what its last bits are as an element of type `integer`
    // The pointwise operations above also multiply and divide weights by reals of (b, h, q_idx, kv_idx), and take rows
    // and outputs as numbers: `kind` says which.
};

/// What an axis of an input runs over; the run-time extent is checked against it (1 broadcasts).
enum class axis_kind : std::uint8_t {
    batch,
    head,
    key_head,
    query,
    key,
    position,  ///< indexed by q_idx and kv_idx alike: at least max(query_length, key_length) long
    depth,
    value_depth,
    free,  ///< a table of its own length
};

constexpr std::string_view name_of(axis_kind a) {
    constexpr std::string_view names[] = {"batch",    "head",  "key_head",    "query", "key",
                                          "position", "depth", "value_depth", "free"};
    return names[static_cast<int>(a)];
}

inline constexpr int max_rank = 8;

struct axis_declaration {
    axis_kind kind{};
    std::string_view name;  ///< of a free axis; else the kind's name
    std::int32_t length{};  ///< of a free axis that has one and the same in all calls, else 0; or channels of a block
    axis_kind counts = axis_kind::free;  ///< a depth: the axis counts its blocks of `length` channels
    constexpr bool operator==(const axis_declaration&) const = default;
};

struct input_declaration {
    std::string_view name;
    element_type element{};
    bool is_scalar{};
    std::uint8_t rank{};
    std::array<axis_declaration, max_rank> axes{};  ///< outermost first
    constexpr bool operator==(const input_declaration&) const = default;
};

/// Whether kernels read its rows by vectors. They do so for q, k and v, and for inputs of three axes or more whose
/// innermost axis is a depth, as in caches, or an axis of its own with elements of one byte, as in packed codes. Such a
/// tensor is dense along that axis, and does not broadcast along a depth.
constexpr bool has_dense_rows(const input_declaration& input) {
    if (input.is_scalar || input.rank < 3) return false;
    const axis_kind innermost = input.axes[static_cast<std::size_t>(input.rank - 1)].kind;
    const bool bytes = bytes_of(input.element) == 1 && input.element != element_type::boolean;
    return innermost == axis_kind::depth || innermost == axis_kind::value_depth ||
           (innermost == axis_kind::free && bytes);
}

/// q, k and v, which every formula may name without declaring them.
inline constexpr input_declaration given_inputs[] = {
    {"q",
     element_type::any,
     false,
     4,
     {{{axis_kind::batch, "batch"},
       {axis_kind::head, "head"},
       {axis_kind::query, "query"},
       {axis_kind::depth, "depth"}}}},
    {"k",
     element_type::any,
     false,
     4,
     {{{axis_kind::batch, "batch"},
       {axis_kind::key_head, "key_head"},
       {axis_kind::key, "key"},
       {axis_kind::depth, "depth"}}}},
    {"v",
     element_type::any,
     false,
     4,
     {{{axis_kind::batch, "batch"},
       {axis_kind::key_head, "key_head"},
       {axis_kind::key, "key"},
       {axis_kind::value_depth, "value_depth"}}}},
};

struct instruction {
    operation op{};
    attune::kind kind{};
    std::uint8_t argument_count{};
    std::array<node_id, max_rank + 1> arguments{};  ///< each before this one
    std::int16_t input{-1};
    std::int64_t integer{};  ///< value of an integer constant
    double number{};         ///< value of a real constant; -infinity means masked
    constexpr bool operator==(const instruction&) const = default;
};

/// The element whose bits `from_bits` reads.
constexpr element_type element_in_bits(const instruction& n) { return static_cast<element_type>(n.integer); }

struct output_declaration {
    std::string_view name;  ///< "out" unless the graph names it
    node_id node{};
    constexpr bool operator==(const output_declaration&) const = default;
};

/// `store(element, value)`: a call writes the value to an element of an input before anything of the graph is read.
struct store_declaration {
    node_id element{};  ///< a load: the place
    node_id value{};
    constexpr bool operator==(const store_declaration&) const = default;
};

/// The instructions of a graph, a view; arguments stand before their users.
class node_list : public std::span<const instruction> {
public:
    using std::span<const instruction>::span;
    using std::span<const instruction>::operator[];
    constexpr node_list(std::span<const instruction> nodes) : std::span<const instruction>(nodes) {}
    constexpr const instruction& operator[](node_id n) const { return data()[static_cast<int>(n)]; }
    constexpr node_ids ids() const { return node_ids(size()); }
};

/// The flat list of a graph: a view of static storage, cheap to copy.
struct graph_ir {
    node_list nodes;
    std::span<const input_declaration> inputs;    ///< q, k, v and the user's, in order of first use
    std::span<const output_declaration> outputs;  ///< in the order named
    std::string_view text;                        ///< the formula, canonical: print.hpp
    std::uint64_t fingerprint{};  ///< of nodes, constants, declarations, output names and stores: build.hpp
    std::span<const std::string_view> indices{};  ///< names of the bound indices, in order of first use
    std::span<const store_declaration> stores{};  ///< in the order named, which is that of the writes
};

/// Whether keys or values belong to heads of their own. Where no tensor has such an axis, all query heads of a kernel
/// for decode read the same keys and values.
constexpr bool has_key_heads(const graph_ir& graph) {
    for (const input_declaration& input : graph.inputs)
        for (std::size_t axis = 0; !input.is_scalar && axis < input.rank; ++axis)
            if (input.axes[axis].kind == axis_kind::key_head) return true;
    return false;
}

using listing [[deprecated("it is called graph_ir now; version 0.3 has this name no more")]] = graph_ir;

}  // namespace attune
