#include "extremes.hpp"

#include <attune/ir/element.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>

namespace fuzz {

using attune::element_type, attune::input_declaration, attune::support::workload;

namespace {

/// Halves of small integers, among them -infinity and NaN: what masks a pair is frequent in biases, NaN in limits. An
/// f8_e4m3 has no infinity, and takes NaN for it.
float extreme_number(bool is_bias, std::mt19937& random) {
    const auto one_in = [&](unsigned n) { return random() % n == 0; };
    if (one_in(is_bias ? 60 : 8)) return std::nanf("");
    if (one_in(is_bias ? 3 : 6)) return -std::numeric_limits<float>::infinity();
    return one_in(20) ? 0.0f : 0.5f * static_cast<float>(static_cast<int>(random() % 9) - 2);
}

constexpr std::int32_t ends_of_i32[] = {2147483647,        2147483646,  1 << 30,     2147483600,
                                        -2147483647 - 1,   -2147483647, -2147483640, -(1 << 30),
                                        (1 << 30) + 12345, 17,          0,           -3};

}  // namespace

void draw_extremes(workload& call, const formula_case& it) {
    std::mt19937 random(it.seed + 23);
    for (const input_declaration& d : it.graph.inputs) {
        if (!d.name.starts_with("extreme_")) continue;
        attune::support::owned_tensor& t = call[d.name];
        const bool is_bias = d.name.starts_with("extreme_bias");
        for (float& x : t.reals) x = extreme_number(is_bias, random);
        for (std::uint16_t& x : t.halves) {
            const float number = extreme_number(is_bias, random);
            x = d.element == element_type::bf16 ? attune::bfloat16(number).bits : attune::float16(number).bits;
        }
        for (std::uint8_t& x : t.bytes) {
            float number = extreme_number(is_bias, random);
            if (d.element == element_type::f8_e4m3 && is_bias && !std::isfinite(number)) number = 1;
            x = d.element == element_type::f8_e5m2 ? attune::float8_e5m2(number).bits
                                                   : attune::float8_e4m3(number).bits;
        }
        for (std::int32_t& x : t.integers) x = ends_of_i32[random() % std::size(ends_of_i32)];
    }
}

void add_extremes(std::map<std::string, double>& numbers, unsigned seed) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    numbers["end"] = ends_of_i32[seed / 8 % std::size(ends_of_i32)];
    numbers["other_end"] = ends_of_i32[seed / 16 % std::size(ends_of_i32)];
    numbers["limit"] = seed % 3 == 0 ? -infinity : seed % 3 == 1 ? std::nan("") : 1;
}

}  // namespace fuzz
