// Element types: every type and mixture at every ISA level, within the bounds that generators/docs/element_types.md
// states; conversions are exact.
#include "types.hpp"
#include <attune/workload.hpp>
#include "../support/workload_values.hpp"
#include "variant_list.hpp"

#include <attune/runtime.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <limits>
#include <set>
#include <tuple>

using namespace attune;
using namespace attune::testing;
using support::shape;
using support::workload;

namespace {

struct types {
    element_type q, k, v, out;
    auto operator<=>(const types&) const = default;
    std::string text() const {
        return std::string(name_of(q)) + "," + std::string(name_of(k)) + "," + std::string(name_of(v)) + "->" +
               std::string(name_of(out));
    }
};

std::set<types> types_of(const kernel_table& table) {
    std::set<types> all;
    for (const kernel& k : table.kernels) all.insert({k.query, k.key, k.value, k.output});
    return all;
}

/// Those at which there are kernels of these types: beside x86-64-v4 those of bf16 have others' alone.
std::vector<std::string> levels_of(const kernel_table& table, const types& of) {
    std::vector<std::string> levels = levels_here(table);
    std::erase_if(levels, [&](const std::string& level) {
        return std::ranges::none_of(table.kernels, [&](const kernel& k) {
            return k.target == level && types{k.query, k.key, k.value, k.output} == of;
        });
    });
    return levels;
}

/// The error beside the rounding of f32 sums: half a unit in the last place of a stored number, relative to it.
double rounding_of(element_type stored) {
    // f32: one step, since scores that biases make large are sums of rounded terms, more so without fused multiply-add
    return stored == element_type::bf16 ? 0x1p-8 : stored == element_type::f16 ? 0x1p-11 : 0x1p-23;
}
constexpr double sums = 2e-5;               // absolute, of unit-normal inputs
constexpr double rounded_weights = 0x1p-8;  // of the largest value, where bf16 is multiplied in pairs
constexpr double largest_value = 6;
constexpr double least_half = 0x1p-25;  // half of the smallest f16: below 2^-14 they are evenly spaced

bool multiplies_pairs(const kernel_table& table, const types& of, std::string_view level) {
    return std::ranges::any_of(table.kernels, [&](const kernel& k) {
        return k.target == level && types{k.query, k.key, k.value, k.output} == of &&
               (std::string_view(k.schedule).find("\"pairing\":2") != std::string_view::npos ||
                std::string_view(k.schedule).find("\"pairing\":32") != std::string_view::npos);
    });
}

workload prepared(const variant& v, const shape& s, unsigned seed, const types& of,
                  const std::vector<std::int32_t>& lengths = {}) {
    workload call(v.graph, s, seed, v.numbers);
    if (!lengths.empty()) call.set_lengths(lengths);
    call.convert("q", of.q), call.convert("k", of.k), call.convert("v", of.v), call.convert("out", of.out);
    call.reset_outputs();
    return call;
}

double read(const std::byte* address, element_type element) {
    const auto as = [address]<class T>(T value) {
        std::memcpy(&value, address, sizeof value);
        return static_cast<double>(static_cast<float>(value));
    };
    return element == element_type::bf16 ? as(bfloat16{}) : element == element_type::f16 ? as(float16{}) : as(float{});
}

/// The largest error of an output as a part of its bound.
double part_of_bound(const workload& call, const reference::results& expected, std::string_view name, bool pairs) {
    const tensor& got = call.view(name);
    const auto* const data = static_cast<const std::byte*>(got.data());
    std::vector<double> values;
    support::for_each_offset(
        got, [&](std::int64_t at) { values.push_back(read(data + at * bytes_of(got.type()), got.type())); });
    const std::vector<double>& right = expected[name].values;
    REQUIRE(values.size() == right.size());
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] == right[i] || (std::isnan(values[i]) && std::isnan(right[i]))) continue;
        const double bound = sums + (pairs ? rounded_weights * largest_value : 0) +
                             rounding_of(got.type()) * std::abs(right[i]) +
                             (got.type() == element_type::f16 ? least_half : 0);
        const double part = std::abs(values[i] - right[i]) / bound;
        worst = std::max(worst, std::isnan(part) ? std::numeric_limits<double>::infinity() : part);
    }
    return worst;
}

/// Numbers of 16 bits that are not finite: quiet NaNs of both signs, memory filled with ones, a signalling NaN,
/// infinity.
std::vector<std::uint16_t> not_finite(element_type type) {
    if (type == element_type::bf16) return {0x7fc0, 0xffc0, 0xffff, 0x7f81, 0x7f80};
    return {0x7e00, 0xfe00, 0xffff, 0x7c01, 0x7c00};
}

/// Puts such numbers into one element of an input, for whatever element types it has 16 bits in, and compares.
void check_not_finite(const variant& v, const char* input, std::size_t element, bool with_infinity) {
    for (const types& of : types_of(*v.kernels)) {
        const shape s{.batches = 2,
                      .heads = 4,
                      .key_heads = 2,
                      .queries = 67,
                      .keys = 2 * v.kernels->kernels.front().key_block + 9,
                      .depth = 32,
                      .value_depth = 32};
        const workload like = prepared(v, s, 3, of);
        const element_type type = like.view(input).type();
        if (type == element_type::f32) continue;
        std::vector<std::uint16_t> numbers = not_finite(type);
        if (!with_infinity) numbers.pop_back();
        for (const std::uint16_t bits : numbers) {
            workload call = prepared(v, s, 3, of, {static_cast<std::int32_t>(s.keys), 70});
            call[input].halves.at(element) = bits;
            const reference::results expected = call.expected();
            for (const std::string& level : levels_of(*v.kernels, of)) {
                call.reset_outputs();
                detail::call(*v.kernels, call.arguments(), {.target = level});
                for (const output_declaration& output : v.graph.outputs) {
                    CAPTURE(v.name, of.text(), level, input, element, bits, output.name);
                    CHECK(part_of_bound(call, expected, output.name, multiplies_pairs(*v.kernels, of, level)) <= 1);
                }
            }
        }
    }
}

void check_bounds(const variant& v, const std::vector<shape>& shapes) {
    for (const types& of : types_of(*v.kernels))
        for (const std::string& level : levels_of(*v.kernels, of)) {
            double worst = 0;
            unsigned seed = 60;
            for (const shape& s : shapes) {
                std::vector<std::int32_t> lengths;
                if (s.batches > 2 && s.keys > 0)
                    lengths = {0, 1, static_cast<std::int32_t>(s.keys)},
                    lengths.resize(static_cast<std::size_t>(s.batches), static_cast<std::int32_t>(s.keys) / 2);
                workload call = prepared(v, s, ++seed, of, lengths);
                INFO(v.name << " " << of.text() << " " << s.text() << " " << level);
                detail::call(*v.kernels, call.arguments(), {.target = level});
                CHECK(outputs_untouched(call, true));
                const reference::results expected = call.expected();
                for (const output_declaration& output : v.graph.outputs) {
                    INFO(output.name);
                    const double part =
                        part_of_bound(call, expected, output.name, multiplies_pairs(*v.kernels, of, level));
                    CHECK(part <= 1);
                    worst = std::max(worst, part);
                }
            }
            std::printf("%-12s %-22s %-15s largest error %.2f of its bound\n", v.name.c_str(), of.text().c_str(),
                        level.c_str(), worst);
        }
}

/// Calls `mixed` for one query, whose values are the same row for all of `keys` keys: what comes out is what went in.
template <class In, class Out>
std::vector<Out> through(const std::vector<In>& values, std::int64_t keys, element_type of_q, element_type of_k,
                         const std::string& level) {
    using namespace attune::dsl;
    const std::int64_t width = 32, heads = static_cast<std::int64_t>(values.size()) / width;
    const std::vector<float> zeros(static_cast<std::size_t>(width));
    const auto zero = [&](element_type element, std::int64_t length) {
        return tensor(element, static_cast<const void*>(zeros.data()),
                      std::vector<std::int64_t>{1, heads, length, width}, std::vector<std::int64_t>{0, 0, 0, 1});
    };
    std::vector<Out> made(values.size());
    std::vector<float> sums_of_rows(static_cast<std::size_t>(heads));
    run<under_test::mixed>(q = zero(of_q, 1), k = zero(of_k, keys),
                           v = tensor(values.data(), {1, heads, keys, width}, {0, width, 0, 1}),
                           out = tensor(made.data(), {1, heads, 1, width}),
                           lse = tensor(sums_of_rows.data(), {1, heads, 1}), attune::options{.target = level});
    return made;
}

/// Floats near every number of 16 bits: itself, its neighbours and the ways to round between them.
std::vector<float> floats_around_halves() {
    std::vector<float> all;
    for (std::uint32_t high = 0; high < 0x10000; ++high)
        for (const std::uint32_t low : {0x0u, 0x1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu, 0x1000u, 0x0fffu, 0x1001u,
                                        0x2000u, 0x3000u, 0xf000u, 0xefffu, 0xf001u, 0x2fffu, 0x3001u}) {
            const float x = std::bit_cast<float>(high << 16 | low);
            all.push_back(std::isinf(x) ? 0 : x);  // beside a masked key's weight of 0 it would be a NaN
        }
    return all;
}

template <class Half> void check_stores(const std::string& level) {
    const std::vector<float> floats = floats_around_halves();
    const auto stored = through<float, Half>(floats, 1, element_type::f32, element_type::f32, level);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < floats.size(); ++i) {
        const Half right(floats[i]);
        const bool nan = std::isnan(floats[i]), zero = floats[i] == 0;
        wrong += nan    ? !std::isnan(float(stored[i]))
                 : zero ? float(stored[i]) != 0
                        : stored[i].bits != right.bits && !(float(right) == 0 && float(stored[i]) == 0);
    }
    INFO(level << ", " << floats.size() << " numbers");
    CHECK(wrong == 0);
}

template <class Half> void check_loads(element_type of_k, const std::string& level) {
    const element_type type = element_of<Half>;
    const bool denormal_is_zero =
        multiplies_pairs(*variant_of<under_test::mixed>("mixed").kernels, {type, type, type, type}, level);
    std::vector<Half> finite, infinite;
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        Half x;
        x.bits = static_cast<std::uint16_t>(bits);
        finite.push_back(std::isinf(float(x)) ? Half(0.0f) : x);
        infinite.push_back(std::isinf(float(x)) ? x : Half(1.0f));
    }
    const auto same = [denormal_is_zero](const std::vector<Half>& in, const auto& out) {
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < in.size(); ++i) {
            const float x(in[i]), y(out[i]);
            wrong += std::isnan(x) ? !std::isnan(y)
                                   : (x != y && !(denormal_is_zero && std::fpclassify(x) == FP_SUBNORMAL && y == 0));
        }
        return wrong;
    };
    const element_type element = element_of<Half>;
    CHECK(same(finite, through<Half, Half>(finite, 1, element, of_k, level)) == 0);
    CHECK(same(infinite, through<Half, Half>(infinite, 512, element, of_k, level)) ==
          0);  // no key beyond the last in any block
}

}  // namespace

TEST_CASE("every element type stays within its bound at every ISA level, whatever the lengths") {
    const auto of = [](std::int64_t b, std::int64_t h, std::int64_t kh, std::int64_t lq, std::int64_t lk,
                       bool gaps = false) {
        return shape{.batches = b,
                     .heads = h,
                     .key_heads = kh,
                     .queries = lq,
                     .keys = lk,
                     .depth = 32,
                     .value_depth = 32,
                     .gaps = gaps};
    };
    const variant v = variant_of<under_test::mixed>("mixed");
    REQUIRE(types_of(*v.kernels).size() >= 6);
    check_bounds(v, {of(1, 1, 1, 1, 1), of(2, 4, 2, 7, 37), of(1, 2, 1, 1, 257), of(2, 2, 2, 67, 130, true),
                     of(1, 6, 2, 193, 67, true), of(1, 1, 1, 37, 513), of(4, 4, 2, 50, 131, true), of(3, 1, 1, 5, 0)});
}

TEST_CASE("so do 16-bit inputs of other kinds, weights as an output and tensors computed from formulas") {
    const auto of = [](std::int64_t b, std::int64_t h, std::int64_t kh, std::int64_t lq, std::int64_t lk,
                       bool gaps = false) {
        return shape{.batches = b,
                     .heads = h,
                     .key_heads = kh,
                     .queries = lq,
                     .keys = lk,
                     .depth = 32,
                     .value_depth = 32,
                     .gaps = gaps};
    };
    for (const variant& v :
         {variant_of<under_test::bent_pairs>("bent_pairs"), variant_of<under_test::formed>("formed")})
        check_bounds(v, {of(1, 1, 1, 1, 1), of(2, 4, 2, 67, 130, true), of(1, 2, 1, 49, 257)});
}

TEST_CASE("an output of 16 bits is that of 32, rounded to nearest even") {
    const variant v = variant_of<under_test::mixed>("mixed");
    const types narrow{element_type::bf16, element_type::bf16, element_type::bf16, element_type::bf16},
        wide{narrow.q, narrow.k, narrow.v, element_type::f32};
    for (const std::string& level : levels_of(*v.kernels, narrow)) {
        const shape s{
            .batches = 2, .heads = 4, .key_heads = 2, .queries = 131, .keys = 300, .depth = 32, .value_depth = 32};
        workload one = prepared(v, s, 7, narrow), other = prepared(v, s, 7, wide);
        detail::call(*v.kernels, one.arguments(), {.target = level});
        detail::call(*v.kernels, other.arguments(), {.target = level});
        std::vector<std::uint16_t> rounded;
        for (const float x : other["out"].reals) rounded.push_back(bfloat16(x).bits);
        INFO(level);
        CHECK(one["out"].halves == rounded);
        CHECK(one["lse"].reals == other["lse"].reals);
    }
}

TEST_CASE("what is stored is rounded to nearest even: denormal numbers, ties, overflow and NaN") {
    const kernel_table& table = *variant_of<under_test::mixed>("mixed").kernels;
    constexpr element_type f32 = element_type::f32;
    for (const std::string& level : levels_of(table, {f32, f32, f32, element_type::bf16}))
        check_stores<bfloat16>(level);
    for (const std::string& level : levels_of(table, {f32, f32, f32, element_type::f16})) check_stores<float16>(level);
}

TEST_CASE("what is loaded is exact: all numbers of 16 bits, denormal and infinite ones and NaN") {
    const kernel_table& table = *variant_of<under_test::mixed>("mixed").kernels;
    constexpr element_type bf16 = element_type::bf16, f16 = element_type::f16;
    for (const std::string& level : levels_of(table, {bf16, bf16, bf16, bf16})) check_loads<bfloat16>(bf16, level);
    for (const std::string& level : levels_of(table, {f16, f16, f16, f16})) check_loads<float16>(f16, level);
}

TEST_CASE("of 16 bits, too, a NaN at a visible pair makes its row NaN, at a masked pair it changes nothing") {
    constexpr std::size_t row = 32;
    const variant mixed = variant_of<under_test::mixed>("mixed"), bent = variant_of<under_test::bent_pairs>("bent"),
                  formed = variant_of<under_test::formed>("formed");
    for (const variant& v : {mixed, bent, formed})
        for (const char* const input : {"q", "k"})
            for (const std::size_t element : {7 * row + 5, 40 * row + 31}) check_not_finite(v, input, element, false);
    check_not_finite(bent, "slope", 1, false);
    check_not_finite(bent, "near_bias", 17 + 3, false);
}

TEST_CASE("of 16 bits, too, what is not finite in the values of a masked key reaches no row") {
    constexpr std::size_t row = 32;
    for (const variant& v : {variant_of<under_test::mixed>("mixed"), variant_of<under_test::bent_pairs>("bent")}) {
        const auto block = static_cast<std::size_t>(v.kernels->kernels.front().key_block);
        for (const std::size_t key : {std::size_t{0}, block + 1, 2 * block + 8})
            check_not_finite(v, "v", key * row + 9, true);
    }
}
