#pragma once
#include <attune/ir/graph_ir.hpp>

#include <array>
#include <cstddef>
#include <initializer_list>

/// The values in the table of operations.hpp.
namespace attune {

/// Groups of operations that most code treats alike.
enum class family : std::uint8_t {
    terminal,
    tensors,     ///< operations that make tensors, or read elements
    sums,        ///< over a bound index
    conversion,  ///< of kinds of numbers
    arithmetic,
    bits,
    function,         ///< of one real
    function_of_two,  ///< reals
    classification,   ///< of one real: a condition
    selection,
    comparison,
    logic,
    random,
    attention,
    recurrent,
    patterns,  ///< bits that are read as a number
};

/// A set of kinds.
struct kinds {
    std::uint32_t bits{};
    constexpr kinds operator|(kinds other) const { return {bits | other.bits}; }
    constexpr bool contains(kind k) const { return bits >> static_cast<int>(k) & 1; }
    constexpr bool operator==(const kinds&) const = default;
};
constexpr kinds only(kind k) { return {std::uint32_t{1} << static_cast<int>(k)}; }

/// What a value varies with, as bits; bound indices are counted apart.
namespace variable {
inline constexpr unsigned none = 0, batch = 1, head = 2, query = 4, key = 8, channel = 16;
inline constexpr unsigned score = 32;   ///< known once the scores are
inline constexpr unsigned data = 64;    ///< elements of tensors are read
inline constexpr unsigned value = 128;  ///< the value channel of a state
inline constexpr unsigned rows = batch | head | query, pairs = rows | key;
}  // namespace variable

/// Which dependences of its arguments an operation inherits.
enum class passes_on : std::uint8_t {
    all,
    nothing,   ///< a whole tensor or its extent; scores, which are of all pairs
    elements,  ///< of the indices, not of what the tensor is made of
    but_index,
    but_keys,
};

enum class effort : std::uint8_t {
    cheap,
    costly,  ///< worth computing once and keeping
};

/// Whether a number is monotone in its indices if its arguments are. Then its values at a tile's ends bound it over the
/// tile.
enum class regularity : std::uint8_t {
    regular,
    by_divisor,  ///< if the divisor is a constant
    by_factors,  ///< unless both factors have indices
    irregular,   ///< a table gives its range over a tile
};

enum class interval_rule : std::uint8_t {
    bounded,  ///< over a block of pairs, from its arguments' intervals
    open,     ///< unknown: always right, but skips no block
};

/// Kinds of the arguments in order; the last one holds for all that follow.
struct argument_kinds {
    std::array<kinds, 3> first{};
    std::uint8_t count{};
    constexpr argument_kinds(std::initializer_list<kinds> all) {
        for (const kinds k : all) first[count++] = k;
    }
    constexpr kinds operator[](std::size_t argument) const { return first[argument < count ? argument : count - 1]; }
};

/// How an operation's derivative is made.
enum class derivative : std::uint8_t {
    flat,     ///< no derivative: integers, conditions, and numbers that depend on no tensor
    rule,     ///< derivatives.hpp
    stage,    ///< differentiate.hpp
    not_yet,  ///< refused where a gradient would need it
};

/// The last values of a row. Their types differ from those before them and have no defaults, so that a row which leaves
/// anything out does not compile.
struct stated_derivative {
    derivative rule;
    constexpr stated_derivative(derivative stated) : rule(stated) {}
    constexpr operator derivative() const { return rule; }
};
struct stated_interval {
    interval_rule rule;
    constexpr stated_interval(interval_rule stated) : rule(stated) {}
    constexpr operator interval_rule() const { return rule; }
};

}  // namespace attune
