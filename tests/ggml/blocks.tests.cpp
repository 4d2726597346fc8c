// Blocks of q8_0 and q4_0 as ggml lays them: the formulas of the backend, beside double over the numbers of the blocks.
#include "variants.hpp"

#include <attune/runtime.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace {

namespace formulas = attune::ggml;

constexpr std::int64_t heads = 4, key_heads = 2, keys = 150, depth = 64, blocks = depth / 32;

/// Codes of (key, key head, channel), as a cache has them: a block of 32 channels is an f16 and its codes.
template <int CodeBytes> struct cache {
    static constexpr std::int64_t block = 2 + CodeBytes, token = key_heads * blocks * block;
    std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(keys * token);

    explicit cache(unsigned seed) {
        std::mt19937 random(seed);
        for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
        for (std::size_t at = 0; at < bytes.size(); at += block) {
            const attune::float16 scale(static_cast<float>(1 + random() % 8) / 512);
            std::memcpy(&bytes[at], &scale.bits, 2);
        }
    }
    double at(std::int64_t key, std::int64_t head, std::int64_t channel) const {
        const std::uint8_t* const of =
            &bytes[static_cast<std::size_t>(key * token + (head * blocks + channel / 32) * block)];
        attune::float16 scale;
        std::memcpy(&scale.bits, of, 2);
        const std::int64_t place = channel % 32;
        const int code = CodeBytes == 32 ? static_cast<std::int8_t>(of[2 + place])
                                         : (of[2 + place % 16] >> (place / 16 * 4) & 15) - 8;
        return static_cast<double>(static_cast<float>(scale)) * code;
    }
    attune::tensor scales() {
        const std::array strides{std::int64_t{0}, blocks * block / 2, token / 2, block / 2};
        return {attune::element_type::f16, bytes.data(), std::array{std::int64_t{1}, key_heads, keys, blocks}, strides};
    }
    attune::tensor codes() {
        const std::array strides{std::int64_t{0}, blocks * block, token, block, std::int64_t{1}};
        const std::array shape{std::int64_t{1}, key_heads, keys, blocks, std::int64_t{CodeBytes}};
        return {CodeBytes == 32 ? attune::element_type::i8 : attune::element_type::u8, bytes.data() + 2, shape,
                strides};
    }
};

struct call {
    std::int64_t queries;
    std::vector<float> q, out;
    std::vector<std::int32_t> first, end;

    explicit call(std::int64_t rows) : queries(rows), q(static_cast<std::size_t>(heads * rows * depth)), out(q.size()) {
        std::mt19937 random(3);
        std::normal_distribution<float> normal;
        std::generate(q.begin(), q.end(), [&] { return normal(random); });
        for (std::int64_t i = 0; i < rows; ++i) {
            end.push_back(static_cast<std::int32_t>(keys - rows + i));
            first.push_back(std::max(0, end.back() - 100));
        }
    }
    /// The largest error of `out` beside double.
    double error(const auto& k, const auto& v, double scale, double sink) const {
        double largest = 0;
        for (std::int64_t h = 0; h < heads; ++h)
            for (std::int64_t i = 0; i < queries; ++i) {
                std::array<double, depth> sums{};
                double total = std::exp(sink);
                const std::size_t row = static_cast<std::size_t>((h * queries + i) * depth);
                for (std::int64_t j = first[static_cast<std::size_t>(i)]; j < end[static_cast<std::size_t>(i)]; ++j) {
                    double score = 0;
                    for (std::size_t d = 0; d < depth; ++d)
                        score += static_cast<double>(q[row + d]) *
                                 k.at(j, h * key_heads / heads, static_cast<std::int64_t>(d));
                    const double weight = std::exp(score * scale);
                    total += weight;
                    for (std::size_t d = 0; d < depth; ++d)
                        sums[d] += weight * v.at(j, h * key_heads / heads, static_cast<std::int64_t>(d));
                }
                for (std::size_t d = 0; d < depth; ++d)
                    largest = std::max(largest, std::abs(static_cast<double>(out[row + d]) - sums[d] / total));
            }
        return largest;
    }
};

template <const auto& Graph, int CodeBytes> void check(const auto& k_codes, const auto& v_codes) {
    using namespace attune::dsl;
    cache<CodeBytes> k_cache(1), v_cache(2);
    std::vector<float> sinks(heads, -1.0f);
    for (const std::int64_t queries : {1, 4, 20, 67}) {
        call made(queries);
        const std::array shape{std::int64_t{1}, heads, queries, depth};
        const float scale = 0.125f;
        attune::run<Graph>(q = attune::tensor(made.q.data(), shape), formulas::k_scales = k_cache.scales(),
                           k_codes = k_cache.codes(), formulas::v_scales = v_cache.scales(), v_codes = v_cache.codes(),
                           formulas::first_key = attune::tensor(made.first.data(), {1, queries}),
                           formulas::end_key = attune::tensor(made.end.data(), {1, queries}),
                           formulas::sink = attune::tensor(sinks.data(), {heads}), formulas::scale = scale,
                           out = attune::tensor(made.out.data(), shape));
        CAPTURE(queries);
        CHECK(made.error(k_cache, v_cache, 0.125, -1) < 1e-5);
    }
}

TEST_CASE("blocks of q8_0 are read as they lie") {
    check<formulas::q8_0::attention, 32>(formulas::q8_0::k_codes, formulas::q8_0::v_codes);
}

TEST_CASE("blocks of q4_0 are read as they lie") {
    check<formulas::q4_0::attention, 16>(formulas::q4_0::k_codes, formulas::q4_0::v_codes);
}

}  // namespace
