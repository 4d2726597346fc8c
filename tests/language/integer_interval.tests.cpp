// Intervals of integers against every pair of numbers between their ends, and what the language concludes of them.
#include "variants.hpp"

#include <attune/ir/integer_interval.hpp>
#include <attune/ir/stores.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <map>

namespace {
using namespace attune;

using number = std::int64_t;
/// Without an end of 32 bits.
number value_of(operation op, number x, number y) {
    return family_of(op) == family::comparison ? integer_comparisons[op](x, y) : exact_integers::of(op)(x, y);
}

constexpr operation integers[] = {
    operation::negate, operation::absolute,  operation::add,        operation::subtract,   operation::multiply,
    operation::divide, operation::remainder, operation::minimum,    operation::maximum,    operation::bit_and,
    operation::bit_or, operation::bit_xor,   operation::shift_left, operation::shift_right};
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
    int wrong = 0;
    for (const operation op : integers)
        each_interval([&](const integer_interval& x) {
            each_interval([&](const integer_interval& y) {
                if ((op == operation::shift_left || op == operation::shift_right) && y.lowest < 0) return;
                const integer_interval made = interval_of(op, x, y);
                integer_interval seen{integer_interval::far, -integer_interval::far};
                for (std::int64_t a = x.lowest; a <= x.highest; ++a)
                    for (std::int64_t b = y.lowest; b <= y.highest; ++b)
                        seen = joined(seen, integer_interval::of(value_of(op, a, b)));
                wrong += !seen.is_within(made);
                exact[op] += made == seen, all[op] += 1;
            });
        });
    CHECK(wrong == 0);
    for (const operation op :
         {operation::negate, operation::absolute, operation::add, operation::subtract, operation::multiply,
          operation::minimum, operation::maximum, operation::shift_left, operation::shift_right})
        CHECK(exact[op] == all[op]);
    CHECK(exact[operation::divide] > all[operation::divide] / 4);
}

TEST_CASE("a comparison of intervals says what must be and what may be", "[intervals]") {
    int wrong = 0;
    for (const operation op : comparisons)
        each_interval([&](const integer_interval& x) {
            each_interval([&](const integer_interval& y) {
                integer_interval seen{1, 0};
                for (std::int64_t a = x.lowest; a <= x.highest; ++a)
                    for (std::int64_t b = y.lowest; b <= y.highest; ++b)
                        seen = joined(seen, integer_interval::of(value_of(op, a, b)));
                wrong += interval_of(op, x, y) != seen;
            });
        });
    CHECK(wrong == 0);
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
