#pragma once
#include <attune/ir/operations.hpp>

#include <algorithm>
#include <cstdint>

/// Arithmetic of integers, as the language has it and kernels compute it. The runtime's numbers of a call and its
/// indices, the reference and intervals of integers read it.
namespace attune {

/// Integers round down; 0 over 0.
constexpr std::int64_t quotient_of(std::int64_t x, std::int64_t y) {
    if (y == 0) return 0;
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
}
constexpr std::int64_t remainder_of(std::int64_t x, std::int64_t y) { return y == 0 ? 0 : x - quotient_of(x, y) * y; }

/// The 32 bits that kernels keep of a number.
constexpr std::int32_t wrapped_to_32_bits(std::int64_t number) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(number));
}

/// Results for numbers of 32 bits, as if integers had any size: 64 bits hold each of them. An operation on one argument
/// looks at the first.
namespace exact_integers {

using of_two = std::int64_t (*)(std::int64_t, std::int64_t);

inline constexpr by_operation<family::arithmetic, of_two> arithmetic{
    {operation::negate, [](std::int64_t x, std::int64_t) { return -x; }},
    {operation::absolute, [](std::int64_t x, std::int64_t) { return x < 0 ? -x : x; }},
    {operation::add, [](std::int64_t x, std::int64_t y) { return x + y; }},
    {operation::subtract, [](std::int64_t x, std::int64_t y) { return x - y; }},
    {operation::multiply, [](std::int64_t x, std::int64_t y) { return x * y; }},
    {operation::divide, quotient_of},
    {operation::remainder, remainder_of},
    {operation::minimum, [](std::int64_t x, std::int64_t y) { return std::min(x, y); }},
    {operation::maximum, [](std::int64_t x, std::int64_t y) { return std::max(x, y); }}};

/// The lowest five bits of a count of bits count.
inline constexpr by_operation<family::bits, of_two> bits{
    {operation::bit_and, [](std::int64_t x, std::int64_t y) { return x & y; }},
    {operation::bit_or, [](std::int64_t x, std::int64_t y) { return x | y; }},
    {operation::bit_xor, [](std::int64_t x, std::int64_t y) { return x ^ y; }},
    {operation::shift_left, [](std::int64_t x, std::int64_t y) { return x * (std::int64_t{1} << (y & 31)); }},
    {operation::shift_right, [](std::int64_t x, std::int64_t y) { return x >> (y & 31); }}};

constexpr of_two of(operation op) { return family_of(op) == family::bits ? bits[op] : arithmetic[op]; }

}  // namespace exact_integers

/// An operation on integers of 32 bits in a kernel: it wraps around.
constexpr std::int32_t integer_operation(operation op, std::int32_t x, std::int32_t y) {
    return wrapped_to_32_bits(exact_integers::of(op)(x, y));
}

inline constexpr by_operation<family::comparison, bool (*)(std::int64_t, std::int64_t)> integer_comparisons{
    {operation::equal, [](std::int64_t x, std::int64_t y) { return x == y; }},
    {operation::not_equal, [](std::int64_t x, std::int64_t y) { return x != y; }},
    {operation::less, [](std::int64_t x, std::int64_t y) { return x < y; }},
    {operation::less_equal, [](std::int64_t x, std::int64_t y) { return x <= y; }},
    {operation::greater, [](std::int64_t x, std::int64_t y) { return x > y; }},
    {operation::greater_equal, [](std::int64_t x, std::int64_t y) { return x >= y; }}};

}  // namespace attune
