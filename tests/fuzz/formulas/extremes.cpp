#include "extremes.hpp"

#include <attune/ir/element.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <string_view>

namespace fuzz {

using attune::element_type, attune::input_declaration, attune::support::workload;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// What is frequent among the numbers of a table: what masks a pair in biases, sinks and log-sum-exps, NaN in limits
/// and in outputs beside log-sum-exps, zeros of both signs in factors of weights. -infinity says that there is no
/// pair or no state: weights are multiplied by no infinity, and outputs that are merged have the other one. An f8_e4m3
/// has none, and takes NaN for it.
struct rarity {
    unsigned nans, infinities, zeros;
    float infinite = -infinity;
};
rarity rarity_in(std::string_view name) {
    if (name.starts_with("extreme_bias") || name.starts_with("extreme_sink") || name.starts_with("extreme_lse"))
        return {60, 3, 20};
    if (name.starts_with("extreme_factor")) return {60, ~0u, 3};
    if (name == "extreme_other") return {8, 6, 20, infinity};
    return {8, 6, 20};
}

/// Halves of small integers, among them -infinity and NaN.
float extreme_number(const rarity& of, std::mt19937& random) {
    const auto one_in = [&](unsigned n) { return random() % n == 0; };
    if (one_in(of.nans)) return std::nanf("");
    if (one_in(of.infinities)) return of.infinite;
    if (one_in(of.zeros)) return one_in(2) ? -0.0f : 0.0f;
    return 0.5f * static_cast<float>(static_cast<int>(random() % 9) - 2);
}

constexpr std::int32_t ends_of_i32[] = {2147483647,        2147483646,  1 << 30,     2147483600,
                                        -2147483647 - 1,   -2147483647, -2147483640, -(1 << 30),
                                        (1 << 30) + 12345, 17,          0,           -3};

/// Beside finite numbers, in q, k or v, which have f32 until the call has other types: rows of one number, of zeros and
/// with one element that is not finite. Every `spared`th row stays as it is.
struct odd_rows {
    std::int64_t depth, spared;
    float usual, other;
};
void draw_rows(attune::support::owned_tensor& t, const odd_rows& of, std::mt19937& random) {
    const auto one_in = [&](unsigned n) { return random() % n == 0; };
    const unsigned rarely = one_in(3) ? 3 : 15;  // so that most rows of other calls are finite
    const std::int64_t rows = std::ssize(t.reals) / of.depth;
    for (std::int64_t row = 0; row < rows; ++row) {
        const std::span<float> x(t.reals.data() + row * of.depth, static_cast<std::size_t>(of.depth));
        if (!one_in(rarely) || (of.spared > 0 && row % of.spared == 0)) continue;
        switch (random() % 8) {
            case 0: x[random() % x.size()] = std::nanf(""); break;
            case 1: x[random() % x.size()] = of.other; break;
            case 2: x[random() % x.size()] = of.usual; break;
            case 3: std::ranges::fill(x, 0.0f); break;
            case 4: std::ranges::fill(x, of.other); break;
            default: std::ranges::fill(x, of.usual); break;
        }
    }
}

/// -infinity in keys above 0, for queries above 0. Of a row that sees nothing else the language says nothing, so each
/// head's first key is spared, and nothing hides it.
void draw_infinite_keys(workload& call, const formula_case& it, std::mt19937& random) {
    for (const char* const name : {"q", "k"})
        for (float& x : call[name].reals) x = std::abs(x) + 0.0625f;
    draw_rows(call["k"], {it.depth, it.shape.keys, -infinity, -infinity}, random);
}

bool hides_keys(const formula_case& it) {
    const auto is_bias = [](const input_declaration& d) { return d.name.starts_with("extreme_bias"); };
    const auto is_mask = [](const attune::instruction& n) { return n.op == attune::operation::mask; };
    return std::ranges::any_of(it.graph.inputs, is_bias) || std::ranges::any_of(it.graph.nodes, is_mask);
}

/// Whether a visible pair may have the weight 0: a number times a 0 of the formula, or a product of rows of zeros.
/// Times a value that is not finite that is NaN, or left out as if it were masked.
bool may_weigh_nothing(const formula_case& it) {
    const auto is_factor = [](const input_declaration& d) { return d.name.starts_with("extreme_factor"); };
    const auto is_sum = [](const attune::instruction& n) { return n.op == attune::operation::unnormalized; };
    return std::ranges::any_of(it.graph.inputs, is_factor) || std::ranges::any_of(it.graph.nodes, is_sum);
}

}  // namespace

void draw_extremes(workload& call, const formula_case& it) {
    std::mt19937 random(it.seed + 23), of_rows(it.seed + 29);
    const float nan = std::nanf(""), least = it.has_input("extreme_other") ? infinity : -infinity;
    const bool infinite = it.extreme && !hides_keys(it) && of_rows() % 4 > 0;
    if (infinite) draw_infinite_keys(call, it, of_rows);
    for (const input_declaration& d : it.graph.inputs) {
        if (it.extreme && (d.name == "q" || (d.name == "k" && !infinite)) && of_rows() % 4 == 0)
            draw_rows(call[d.name], {it.depth, 0, 0.0f, nan}, of_rows);
        if (it.extreme && d.name == "v" && !may_weigh_nothing(it) && of_rows() % 3 == 0)
            draw_rows(call[d.name], {it.value_depth, 0, least, infinity}, of_rows);
        if (!d.name.starts_with("extreme_")) continue;
        attune::support::owned_tensor& t = call[d.name];
        const rarity usual = rarity_in(d.name);
        for (float& x : t.reals) x = extreme_number(usual, random);
        for (std::uint16_t& x : t.halves) {
            const float number = extreme_number(usual, random);
            x = d.element == element_type::bf16 ? attune::bfloat16(number).bits : attune::float16(number).bits;
        }
        for (std::uint8_t& x : t.bytes) {
            float number = extreme_number(usual, random);
            if (d.element == element_type::f8_e4m3 && usual.nans > 10 && !std::isfinite(number)) number = 1;
            x = d.element == element_type::f8_e5m2 ? attune::float8_e5m2(number).bits
                                                   : attune::float8_e4m3(number).bits;
        }
        for (std::int32_t& x : t.integers) x = ends_of_i32[random() % std::size(ends_of_i32)];
    }
}

void add_extremes(std::map<std::string, double>& numbers, unsigned seed) {
    numbers["end"] = ends_of_i32[seed / 8 % std::size(ends_of_i32)];
    numbers["other_end"] = ends_of_i32[seed / 16 % std::size(ends_of_i32)];
    numbers["limit"] = seed % 3 == 0 ? -infinity : seed % 3 == 1 ? std::nan("") : 1;
}

}  // namespace fuzz
