// Intervals of integers against every pair of numbers between their ends, and what the language concludes of them.
#include "variants.hpp"

#include <attune/ir/integer_interval.hpp>
#include <attune/ir/stores.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <map>

namespace {
using namespace attune;

/// What kernels compute, without an end of 32 bits.
std::int64_t value_of(operation op, std::int64_t x, std::int64_t y) {
    switch (op) {
        case operation::negate: return -x;
        case operation::absolute: return x < 0 ? -x : x;
        case operation::add: return x + y;
        case operation::subtract: return x - y;
        case operation::multiply: return x * y;
        case operation::divide: return quotient_of(x, y);
        case operation::remainder: return remainder_of(x, y);
        case operation::minimum: return x < y ? x : y;
        case operation::maximum: return x > y ? x : y;
        case operation::bit_and: return x & y;
        case operation::bit_or: return x | y;
        case operation::bit_xor: return x ^ y;
        case operation::shift_left: return x * (std::int64_t{1} << (y & 31));
        case operation::shift_right: return x >> (y & 31);
        case operation::equal: return x == y;
        case operation::not_equal: return x != y;
        case operation::less: return x < y;
        case operation::less_equal: return x <= y;
        case operation::greater: return x > y;
        case operation::greater_equal: return x >= y;
        default: FAIL("an operation of integers"); return 0;
    }
}

constexpr operation integers[] = {
    operation::negate,      operation::absolute, operation::add,         operation::subtract,   operation::multiply,
    operation::divide,      operation::remainder, operation::minimum,    operation::maximum,    operation::bit_and,
    operation::bit_or,      operation::bit_xor,  operation::shift_left,  operation::shift_right};
constexpr operation comparisons[] = {operation::equal,      operation::not_equal, operation::less,
                                     operation::less_equal, operation::greater,   operation::greater_equal};

template <class Visit> void each_interval(Visit visit) {
    for (std::int64_t lowest = -5; lowest <= 5; ++lowest)
        for (std::int64_t highest = lowest; highest <= 5; ++highest) visit(integer_interval{lowest, highest});
}

// From the formula alone: half of a byte and its distance from 128 are numbers of 8 bits.
constexpr auto bytes = dsl::input<"bytes", dsl::u8>(dsl::query);
constexpr auto cache = dsl::input<"cache", dsl::i8>(dsl::batch, dsl::key_head, dsl::key, dsl::depth);
template <class Code> constexpr auto stored(Code code) {
    using namespace dsl;
    return outputs(store(cache(b, h, new_kv_idx, d_idx), code), output<"out"> = softmax(q * t(k)) * v);
}
constexpr auto halves = stored(bytes(dsl::q_idx) / 2);
constexpr auto distances = stored(dsl::abs(dsl::clamp(bytes(dsl::q_idx), 1, 127) - 64) | 1);
static_assert(dsl::ir_of<halves>.stores.size() == 1 && dsl::ir_of<distances>.stores.size() == 1);

}  // namespace

TEST_CASE("an interval has what an operation makes of any two numbers, and most of its ends are made", "[intervals]") {
    std::map<operation, int> exact, all;
    for (const operation op : integers)
        each_interval([&](const integer_interval& x) {
            each_interval([&](const integer_interval& y) {
                if ((op == operation::shift_left || op == operation::shift_right) && y.lowest < 0) return;
                const integer_interval made = interval_of(op, x, y);
                integer_interval seen{integer_interval::far, -integer_interval::far};
                for (std::int64_t a = x.lowest; a <= x.highest; ++a)
                    for (std::int64_t b = y.lowest; b <= y.highest; ++b)
                        seen = joined(seen, integer_interval::of(value_of(op, a, b)));
                if (!seen.is_within(made)) FAIL_CHECK(static_cast<int>(op) << " of " << x.lowest << " .. " << x.highest);
                exact[op] += made == seen, all[op] += 1;
            });
        });
    for (const operation op : {operation::negate, operation::absolute, operation::add, operation::subtract,
                               operation::multiply, operation::minimum, operation::maximum, operation::shift_left,
                               operation::shift_right})
        CHECK(exact[op] == all[op]);
    CHECK(exact[operation::divide] > all[operation::divide] / 4);
}

TEST_CASE("a comparison of intervals says what must be and what may be", "[intervals]") {
    for (const operation op : comparisons)
        each_interval([&](const integer_interval& x) {
            each_interval([&](const integer_interval& y) {
                integer_interval seen{1, 0};
                for (std::int64_t a = x.lowest; a <= x.highest; ++a)
                    for (std::int64_t b = y.lowest; b <= y.highest; ++b)
                        seen = joined(seen, integer_interval::of(value_of(op, a, b)));
                if (interval_of(op, x, y) != seen) FAIL_CHECK(static_cast<int>(op));
            });
        });
}

TEST_CASE("ends beyond 32 bits are exact, and what nothing is known of stays unknown", "[intervals]") {
    constexpr integer_interval all = integer_interval::of_32_bits(), nothing{};
    CHECK(interval_of(operation::add, all, all).is_above());
    CHECK(interval_of(operation::multiply, all, all).overflows());
    CHECK(interval_of(operation::multiply, all, all).highest == std::int64_t{1} << 62);
    CHECK_FALSE(interval_of(operation::add, nothing, integer_interval::of(1)).overflows());
    CHECK_FALSE(interval_of(operation::multiply, nothing, integer_interval{-3, 2}).overflows());
    CHECK(interval_of(operation::remainder, nothing, integer_interval::of(7)) == integer_interval{-0, 6});
    CHECK(interval_of(operation::bit_and, nothing, integer_interval::of(15)) == integer_interval{0, 15});
    CHECK(interval_of(operation::add, all, all).wrapped() == all);
}
