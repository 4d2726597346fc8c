#pragma once
#include <attune/ir/fold.hpp>
#include <attune/ir/operation_traits.hpp>

#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>

/// The operations, a row for each, which holds all that is data. Functions that compute something, one for each
/// operation and purpose, stand in tables of `by_operation`.
namespace attune {

struct operation_row {
    operation op;
    attune::family family;
    std::string_view text;    ///< as the language spells it
    std::uint8_t precedence;  ///< C++'s, larger binds tighter; 0: a function
    std::uint8_t fewest, most;
    argument_kinds takes;
    kinds gives;
    attune::passes_on passes_on;
    unsigned adds;  ///< variables
    attune::effort effort;
    attune::regularity regularity;
    stated_interval interval;
    stated_derivative derivative;
};

namespace operation_table {
using enum operation;
using enum family;
using enum passes_on;
using enum effort;
using enum regularity;
using enum interval_rule;
using enum derivative;
using namespace variable;

inline constexpr kinds tensor = only(kind::tensor), transposed = only(kind::transposed), integer = only(kind::integer),
                       real = only(kind::real), condition = only(kind::condition), scores = only(kind::scores),
                       weights = only(kind::weights), output = only(kind::output), row = only(kind::row),
                       column = only(kind::column), head_mean = only(kind::head_mean), layer = only(kind::tokens),
                       of_input = only(kind::gradient), made_before = only(kind::precomputed),
                       states = only(kind::states), last_state = only(kind::last_state);
inline constexpr kinds counted = integer | real, reals = real | scores | row | output, numbers = integer | reals,
                       element = counted | condition, weighable = numbers | weights, converted = numbers | condition,
                       chosen = converted | weights, added = numbers | of_input,
                       readable = tensor | output | layer | made_before;

inline constexpr std::uint8_t longest = max_rank + 1;  // a tensor and its indices

// clang-format off: a row is a line where it can be
inline constexpr operation_row rows_of_all[] = {
    // operation, family, text, precedence, fewest and most arguments, their kinds, its own, dependences that it passes
    // on, those that it adds, effort, regularity, interval, derivative
    // terminals
    {constant, terminal, "", 99, 0, 0, {}, element, all, none, cheap, regular, open, flat},
    {b, terminal, "b", 99, 0, 0, {}, integer, all, batch, cheap, regular, open, flat},
    {h, terminal, "h", 99, 0, 0, {}, integer, all, head, cheap, regular, open, flat},
    {q_idx, terminal, "q_idx", 99, 0, 0, {}, integer, all, query, cheap, regular, open, flat},
    {kv_idx, terminal, "kv_idx", 99, 0, 0, {}, integer, all, key, cheap, regular, open, flat},
    {d_idx, terminal, "d_idx", 99, 0, 0, {}, integer, all, channel, cheap, regular, open, flat},
    {bound, terminal, "", 99, 0, 0, {}, integer, all, none, cheap, regular, open, flat},
    {depth, terminal, "depth", 99, 0, 0, {}, integer, all, none, cheap, regular, open, flat},
    {value_depth, terminal, "value_depth", 99, 0, 0, {}, integer, all, none, cheap, regular, open, flat},
    {query_length, terminal, "query_length", 99, 0, 0, {}, integer, all, none, cheap, regular, open, flat},
    {key_length, terminal, "key_length", 99, 0, 0, {}, integer, all, none, cheap, regular, open, flat},
    {heads, terminal, "heads", 99, 0, 0, {}, integer, all, none, cheap, regular, open, flat},
    {key_heads, terminal, "key_heads", 99, 0, 0, {}, integer, all, none, cheap, regular, open, flat},
    {batches, terminal, "batches", 99, 0, 0, {}, integer, all, none, cheap, regular, open, flat},
    {input, terminal, "", 99, 0, 0, {}, tensor, all, none, cheap, regular, open, flat},
    {scalar, terminal, "", 99, 0, 0, {}, counted, all, none, cheap, regular, open, flat},
    {kv_lengths, terminal, "kv_lengths(b)", 99, 0, 0, {}, integer, all, batch | data, costly, regular, open, flat},
    // tensors
    {load, tensors, "", 99, 2, longest, {readable, integer},
     element, elements, data, costly, irregular, bounded, stage},
    {transpose, tensors, "t", 0, 1, 1, {tensor}, transposed, nothing, none, cheap, regular, open, stage},
    {contract, tensors, " * ", 13, 2, 2, {tensor, transposed},
     scores, nothing, score | data, cheap, regular, open, stage},
    {queries, tensors, "queries", 0, 1, 4, {real, integer}, tensor, nothing, none, cheap, regular, open, stage},
    {keys, tensors, "keys", 0, 1, 4, {real, integer}, tensor, nothing, none, cheap, regular, open, stage},
    {values, tensors, "values", 0, 1, 4, {real, integer}, tensor, nothing, none, cheap, regular, open, stage},
    {extent, tensors, "extent", 0, 1, 1, {tensor}, integer, nothing, none, cheap, regular, open, flat},
    {precomputed, tensors, "precomputed", 0, 3, longest, {real, integer},
     made_before, nothing, none, cheap, regular, open, not_yet},
    {top_k, tensors, "top_k", 0, 2, 2, {made_before, integer}, made_before, nothing, none, cheap, regular, open, flat},
    {top_p, tensors, "top_p", 0, 2, 2, {made_before, real}, made_before, nothing, none, cheap, regular, open, flat},
    {sum, sums, "sum", 0, 3, 3, {integer, integer, element}, counted, but_index, none, costly, regular, bounded, stage},
    {any, sums, "any", 0, 3, 3, {integer, integer, condition},
     condition, but_index, none, costly, regular, bounded, flat},
    {largest, sums, "largest", 0, 3, 3, {integer, integer, real},
     real, but_index, none, costly, regular, open, not_yet},
    // pointwise
    {to_real, conversion, "as_real", 0, 1, 1, {converted}, reals, all, none, cheap, regular, bounded, flat},
    {to_integer, conversion, "as_integer", 0, 1, 1, {converted}, integer, all, none, cheap, regular, bounded, flat},
    {negate, arithmetic, "-", 14, 1, 1, {numbers}, numbers, all, none, cheap, regular, bounded, rule},
    {absolute, arithmetic, "abs", 0, 1, 1, {numbers}, numbers, all, none, cheap, regular, bounded, rule},
    {exp, function, "exp", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {log, function, "log", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {tanh, function, "tanh", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {erf, function, "erf", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {sqrt, function, "sqrt", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {rsqrt, function, "rsqrt", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {sin, function, "sin", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {cos, function, "cos", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {tan, function, "tan", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {asin, function, "asin", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {acos, function, "acos", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {atan, function, "atan", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {sinh, function, "sinh", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {cosh, function, "cosh", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {exp2, function, "exp2", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {expm1, function, "expm1", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {log1p, function, "log1p", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {log2, function, "log2", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {sigmoid, function, "sigmoid", 0, 1, 1, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {floor, function, "floor", 0, 1, 1, {reals}, reals, all, none, cheap, irregular, bounded, flat},
    {round, function, "round", 0, 1, 1, {reals}, reals, all, none, cheap, irregular, bounded, flat},
    {trunc, function, "trunc", 0, 1, 1, {reals}, reals, all, none, cheap, irregular, bounded, flat},
    {sign, function, "sign", 0, 1, 1, {reals}, reals, all, none, cheap, irregular, bounded, flat},
    {atan2, function_of_two, "atan2", 0, 2, 2, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {pow, function_of_two, "pow", 0, 2, 2, {reals}, reals, all, none, costly, irregular, open, rule},
    {fmod, function_of_two, "fmod", 0, 2, 2, {reals}, reals, all, none, costly, irregular, bounded, rule},
    {is_nan, classification, "isnan", 0, 1, 1, {reals}, condition, all, none, cheap, irregular, open, flat},
    {is_infinite, classification, "isinf", 0, 1, 1, {reals}, condition, all, none, cheap, irregular, open, flat},
    {add, arithmetic, " + ", 12, 2, 2, {added}, added, all, none, cheap, regular, bounded, rule},
    {subtract, arithmetic, " - ", 12, 2, 2, {numbers}, numbers, all, none, cheap, regular, bounded, rule},
    {multiply, arithmetic, " * ", 13, 2, 2, {weighable}, weighable, all, none, cheap, by_factors, bounded, rule},
    {divide, arithmetic, " / ", 13, 2, 2, {weighable}, weighable, all, none, costly, by_divisor, bounded, rule},
    {remainder, arithmetic, " % ", 13, 2, 2, {integer}, integer, all, none, costly, irregular, bounded, flat},
    {minimum, arithmetic, "min", 0, 2, 2, {numbers}, numbers, all, none, cheap, regular, bounded, rule},
    {maximum, arithmetic, "max", 0, 2, 2, {numbers}, numbers, all, none, cheap, regular, bounded, rule},
    {bit_and, bits, " & ", 7, 2, 2, {integer}, integer, all, none, costly, irregular, bounded, flat},
    {bit_or, bits, " | ", 5, 2, 2, {integer}, integer, all, none, costly, irregular, bounded, flat},
    {bit_xor, bits, " ^ ", 6, 2, 2, {integer}, integer, all, none, costly, irregular, bounded, flat},
    {shift_left, bits, " << ", 11, 2, 2, {integer}, integer, all, none, costly, irregular, bounded, flat},
    {shift_right, bits, " >> ", 11, 2, 2, {integer}, integer, all, none, costly, irregular, bounded, flat},
    {same, selection, "same", 0, 2, 2, {integer}, integer, all, none, cheap, regular, open, flat},
    {where, selection, "where", 0, 3, 3, {condition, chosen}, chosen, all, none, costly, irregular, bounded, stage},
    // conditions
    {equal, comparison, " == ", 8, 2, 2, {numbers}, condition, all, none, cheap, regular, bounded, flat},
    {not_equal, comparison, " != ", 8, 2, 2, {numbers}, condition, all, none, cheap, regular, bounded, flat},
    {less, comparison, " < ", 9, 2, 2, {numbers}, condition, all, none, cheap, regular, bounded, flat},
    {less_equal, comparison, " <= ", 9, 2, 2, {numbers}, condition, all, none, cheap, regular, bounded, flat},
    {greater, comparison, " > ", 9, 2, 2, {numbers}, condition, all, none, cheap, regular, bounded, flat},
    {greater_equal, comparison, " >= ", 9, 2, 2, {numbers}, condition, all, none, cheap, regular, bounded, flat},
    {logical_and, logic, " && ", 4, 2, 2, {condition}, condition, all, none, cheap, regular, bounded, flat},
    {logical_or, logic, " || ", 3, 2, 2, {condition}, condition, all, none, cheap, regular, bounded, flat},
    {logical_not, logic, "!", 14, 1, 1, {condition}, condition, all, none, cheap, regular, bounded, flat},
    {keep, random, "keep", 0, 3, 7, {real, integer}, condition, all, pairs, costly, irregular, open, flat},
    // attention
    {mask, attention, "mask", 0, 2, 2, {scores, condition}, scores, all, none, cheap, regular, bounded, stage},
    {softmax, attention, "softmax", 0, 1, 2, {scores, real}, weights, all, score, cheap, regular, open, stage},
    {unnormalized, attention, "unnormalized", 0, 1, 1, {scores}, weights, all, score, cheap, regular, open, stage},
    {in_u8, attention, "quantized<u8>", 0, 1, 1, {weights}, weights, all, none, cheap, regular, open, not_yet},
    {in_i16, attention, "quantized<i16>", 0, 1, 1, {weights}, weights, all, none, cheap, regular, open, not_yet},
    {weighted_sum, attention, " * ", 13, 2, 2, {weights, tensor},
     output, but_keys, rows | score, cheap, regular, open, stage},
    {log_sum_exp, attention, "log_sum_exp", 0, 1, 2, {scores, real},
     row, but_keys, rows | score, cheap, regular, open, stage},
    {row_maximum, attention, "row_maximum", 0, 1, 1, {scores},
     row, but_keys, rows | score, cheap, regular, open, not_yet},
    {row_sum, attention, "row_sum", 0, 1, 1, {weights}, row, but_keys, rows | score, cheap, regular, open, stage},
    {sum_over_queries, attention, "sum_over_queries", 0, 1, 1, {weights},
     column, all, none, cheap, regular, open, not_yet},
    {mean_over_heads, attention, "mean_over_heads", 0, 1, 1, {weights},
     head_mean, all, none, cheap, regular, open, not_yet},
    {as_row, attention, "as_row", 0, 1, 1, {real}, row, all, none, cheap, regular, open, stage},
    {as_output, attention, "as_output", 0, 1, 1, {real}, output, all, none, cheap, regular, open, stage},
    {tokens, attention, "tokens", 0, 2, 3, {real, integer}, layer, nothing, none, cheap, regular, open, not_yet},
    // gradients
    {each, attention, "each", 0, 3, 3, {integer, integer, reals}, real, all, none, cheap, regular, open, not_yet},
    {deposit, attention, "deposit", 0, 2, longest, {reals, integer},
     of_input, nothing, none, cheap, regular, open, not_yet},
    // recurrences
    {value_idx, recurrent, "value_idx", 99, 0, 0, {}, integer, all, value, cheap, regular, open, flat},
    {recurrence, recurrent, "recurrence", 0, 6, 8, {real | output},
     states, nothing, none, costly, regular, open, stage},
    {read_states, recurrent, " * ", 13, 2, 2, {real, states},
     output, nothing, rows | channel | data, costly, regular, open, stage},
    {earlier, recurrent, "earlier", 0, 1, 1, {states}, states, nothing, none, cheap, regular, open, not_yet},
    {last, recurrent, "last", 0, 1, 1, {states}, last_state, nothing, none, cheap, regular, open, stage},
    {state_cotangents, recurrent, "state_cotangents", 0, 2, 4, {states, real},
     states, nothing, none, costly, regular, open, not_yet},
    {part_cotangent, recurrent, "part_cotangent", 0, 1, 3, {states, integer},
     real, elements, rows | data, costly, regular, open, not_yet},
    // elements that lie in bytes
    {from_bits, patterns, "from_bits", 0, 1, 1, {integer}, counted, all, none, cheap, irregular, open, flat},
};
// clang-format on
}  // namespace operation_table

inline constexpr std::size_t operation_count = std::size(operation_table::rows_of_all);

constexpr const operation_row& about(operation op) {
    return operation_table::rows_of_all[static_cast<std::size_t>(op)];
}
constexpr family family_of(operation op) { return about(op).family; }
/// Whether an operation chooses among the elements of a precomputed tensor.
constexpr bool chooses(operation op) { return op == operation::top_k || op == operation::top_p; }

namespace operation_table {
struct limit {
    operation of;
    double is;
};
inline constexpr limit limits[] = {{exp, 0.0},   {exp2, 0.0}, {sigmoid, 0.0}, {expm1, -1.0},
                                   {tanh, -1.0}, {erf, -1.0}, {sign, -1.0},   {atan, -1.5707963267948966}};
}  // namespace operation_table

/// f(-infinity), if it is finite. Any other function of a masked value is masked.
constexpr std::optional<double> limit_of(operation op) {
    for (const auto& [of, is] : operation_table::limits)
        if (of == op) return is;
    return {};
}

static_assert(
    [] {
        for (std::size_t at = 0; at < operation_count; ++at)
            if (about(static_cast<operation>(at)).op != static_cast<operation>(at)) return false;
        return true;
    }(),
    "attune: operation_table has a row for each operation, in the order of graph_ir.hpp");

namespace operation_table {
/// Whether an enumerator has this value: compilers print other values as numbers.
template <operation Op> constexpr bool is_named() {
    const std::string_view text = __PRETTY_FUNCTION__;
    return text[text.rfind("= ") + 2] != '(';
}
}  // namespace operation_table
static_assert(operation_table::is_named<static_cast<operation>(operation_count - 1)>() &&
                  !operation_table::is_named<static_cast<operation>(operation_count)>(),
              "attune: operation_table has a row for each operation, and for nothing else");

/// A value for each operation of a family, such as the function that computes it. A table that leaves one out does not
/// compile.
template <family Of, class T> class by_operation {
    /// Room for the family alone, whose operations stand together in graph_ir.hpp.
    static constexpr bool is_there(std::size_t at) { return about(static_cast<operation>(at)).family == Of; }
    static constexpr std::size_t first = [] {
        std::size_t at = 0;
        while (!is_there(at)) ++at;
        return at;
    }();
    static constexpr std::size_t count = [] {
        std::size_t last = operation_count - 1;
        while (!is_there(last)) --last;
        return last + 1 - first;
    }();
    static constexpr std::size_t place_of(operation op) { return static_cast<std::size_t>(op) - first; }

public:
    struct entry {
        operation op;
        T is;
    };
    constexpr by_operation(std::initializer_list<entry> all) {
        std::array<bool, count> said{};
        for (const entry& each : all) {
            if (family_of(each.op) != Of) throw "attune: an operation of another family";
            if (said[place_of(each.op)]) throw "attune: an operation is there twice";
            said[place_of(each.op)] = true;
            is_[place_of(each.op)] = each.is;
        }
        for (const operation_row& row : operation_table::rows_of_all)
            if (row.family == Of && !said[place_of(row.op)]) throw "attune: an operation is left out";
    }
    /// T{} of an operation of another family.
    constexpr const T& operator[](operation op) const {
        return is_there(static_cast<std::size_t>(op)) ? is_[place_of(op)] : none;
    }

private:
    static constexpr T none{};
    std::array<T, count> is_{};
};

/// The part of a node that contradicts the table; empty if none does.
constexpr std::string_view fault_of(const graph_ir& graph, const instruction& node) {
    const operation_row& row = about(node.op);
    if (node.argument_count < row.fewest || node.argument_count > row.most) return "the number of its arguments";
    if (!row.gives.contains(node.kind)) return "its kind";
    for (std::size_t i = 0; i < node.argument_count; ++i)
        if (!row.takes[i].contains(graph.nodes[node.arguments[i]].kind)) return "the kind of an argument";
    return {};
}

/// The variables on which a node's value depends.
struct dependences_of_node {
    unsigned on{};          ///< bits of `variable`
    std::uint64_t bound{};  ///< the bound indices that are free in it, a bit each
    constexpr bool has(unsigned variables) const { return (on & variables) != 0; }
};

/// The same for one node; `of(argument)` gives it for the nodes before.
template <class Of> constexpr dependences_of_node dependences_at(const instruction& node, const Of& of) {
    const operation_row& row = about(node.op);
    dependences_of_node here;
    for (std::size_t i = row.passes_on == passes_on::elements ? 1 : 0;
         row.passes_on != passes_on::nothing && i < node.argument_count; ++i) {
        const dependences_of_node below = of(node.arguments[i]);
        here.on |= below.on, here.bound |= below.bound;
    }
    if (row.passes_on == passes_on::but_index) here.bound &= ~of(node.arguments[0]).bound;
    if (row.passes_on == passes_on::but_keys) here.on &= ~variable::key;
    if (node.op == operation::bound) here.bound = std::uint64_t{1} << node.integer;
    here.on |= row.adds;
    return here;
}

/// The same of a list, for `fold`.
inline constexpr auto what_varies = [](node_id, const instruction& node, const auto& arguments) {
    return dependences_at(node, arguments);
};

}  // namespace attune
