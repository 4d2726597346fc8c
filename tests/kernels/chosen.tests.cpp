// Keys that each query chooses: a query reads the slots that its index names and no other, alone or in a tile of
// queries, in prefill and in decode; gradients reach the pool through the index.
#include "chosen.hpp"

#include <attune/reference.hpp>
#include <attune/runtime.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace {

using attune::tensor;
using Catch::Matchers::ContainsSubstring;

constexpr std::int64_t Lq = 33, H = 4, Hk = 2, S = 150, most = 29, D = 16, Dv = 32;  // S: slots of the pool
constexpr std::int64_t tile = 8, tiles = (Lq + tile - 1) / tile;
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Queries of one sequence, each with a choice of its own; every fifth slot is nobody's, and holds NaN.
struct sequence {
    std::mt19937 random{20261130};
    std::vector<float> q = reals(tiles * tile * H * D), k = reals(S * Hk * D), v = reals(S * Hk * Dv),
                       importance = reals(Lq * most);
    std::vector<std::int32_t> chosen, lengths;

    sequence() {
        std::vector<std::int32_t> all;
        for (std::int32_t slot = 0; slot < S; ++slot)
            if (slot % 5 != 0) all.push_back(slot);
        for (std::int64_t slot = 0; slot < S; slot += 5) {
            std::fill_n(k.begin() + slot * Hk * D, Hk * D, nan);
            std::fill_n(v.begin() + slot * Hk * Dv, Hk * Dv, nan);
        }
        for (std::int64_t query = 0; query < Lq; ++query) {
            std::ranges::shuffle(all, random);
            lengths.push_back(static_cast<std::int32_t>(query % (most + 1)));  // none, in two rows
            for (std::int64_t i = 0; i < most; ++i)
                chosen.push_back(i < lengths.back() ? all[static_cast<std::size_t>(i)] : -1);
        }
    }
    std::vector<float> reals(std::int64_t count) {
        std::normal_distribution<float> normal;
        std::vector<float> made(static_cast<std::size_t>(count));
        for (float& x : made) x = normal(random);
        return made;
    }
    tensor k_pool() { return {k.data(), {S, Hk, D}}; }
    tensor v_pool() { return {v.data(), {S, Hk, Dv}}; }
    tensor of_queries(std::vector<float>& of, std::int64_t width) { return {of.data(), {Lq, H, 1, width}}; }
    tensor index() { return {chosen.data(), {Lq, most}}; }
    tensor kv_lengths() { return {lengths.data(), {Lq}}; }
};

}  // namespace

TEST_CASE("a query reads the slots of its index and no other", "[kernels]") {
    using namespace chosen_keys;
    sequence s;
    std::vector<float> made(static_cast<std::size_t>(Lq * H * Dv));
    const tensor O = s.of_queries(made, Dv);
    attune::run<own>(q = s.of_queries(s.q, D), k_pool = s.k_pool(), v_pool = s.v_pool(), chosen = s.index(),
                     attune::dsl::kv_lengths = s.kv_lengths(), out = O);
    const auto expected =
        attune::reference::evaluate<own>(q = s.of_queries(s.q, D), k_pool = s.k_pool(), v_pool = s.v_pool(),
                                         chosen = s.index(), attune::dsl::kv_lengths = s.kv_lengths());
    CHECK(expected.largest_error("out", O) < 2e-5);
    CHECK(std::ranges::all_of(made.begin(), made.begin() + H * Dv, [](float x) { return x == 0; }));
    CHECK(std::ranges::none_of(made, [](float x) { return x != x; }));

    s.chosen[static_cast<std::size_t>(7 * most + 3)] = S;
    CHECK_THROWS_WITH(attune::run<own>(q = s.of_queries(s.q, D), k_pool = s.k_pool(), v_pool = s.v_pool(),
                                       chosen = s.index(), attune::dsl::kv_lengths = s.kv_lengths(), out = O),
                      ContainsSubstring("got 150"));
}

TEST_CASE("queries that read the union of their choices see their own", "[kernels]") {
    using namespace chosen_keys;
    sequence s;
    std::vector<std::vector<std::int32_t>> bits(tiles, std::vector<std::int32_t>(S));
    for (std::int64_t query = 0; query < Lq; ++query)
        for (std::int64_t i = 0; i < s.lengths[static_cast<std::size_t>(query)]; ++i)
            bits[static_cast<std::size_t>(query / tile)]
                [static_cast<std::size_t>(s.chosen[static_cast<std::size_t>(query * most + i)])] |= 1 << (query % tile);
    std::vector<std::int32_t> together(tiles * S, -1), whose(tiles * S), counts;
    for (std::int64_t at = 0; at < tiles; ++at) {
        std::int32_t count = 0;
        for (std::int32_t slot = 0; slot < S; ++slot)
            if (const std::int32_t of = bits[static_cast<std::size_t>(at)][static_cast<std::size_t>(slot)])
                together[static_cast<std::size_t>(at * S + count)] = slot,
                                                           whose[static_cast<std::size_t>(at * S + count++)] = of;
        counts.push_back(count);
    }
    const auto of_tiles = [](std::vector<float>& of, std::int64_t width) {  // (query, head, channel) in memory
        return tensor(of.data(), {tiles, H, tile, width}, {tile * H * width, width, H * width, 1});
    };
    std::vector<float> made(static_cast<std::size_t>(tiles * tile * H * Dv)), alone(made);
    attune::run<joint>(q = of_tiles(s.q, D), k_pool = s.k_pool(), v_pool = s.v_pool(),
                       chosen = tensor(together.data(), {tiles, S}), members = tensor(whose.data(), {tiles, S}),
                       attune::dsl::kv_lengths = tensor(counts.data(), {tiles}), out = of_tiles(made, Dv));
    attune::run<own>(q = s.of_queries(s.q, D), k_pool = s.k_pool(), v_pool = s.v_pool(), chosen = s.index(),
                     attune::dsl::kv_lengths = s.kv_lengths(), out = s.of_queries(alone, Dv));
    double worst = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(Lq * H * Dv); ++i)
        worst = std::max(worst, made[i] == alone[i] ? 0.0 : std::abs(double(made[i]) - double(alone[i])));
    CHECK(worst < 2e-5);
}

TEST_CASE("gradients reach a pool through an index, and the importance of what was chosen", "[kernels]") {
    using namespace chosen_keys;
    sequence s;
    const auto rows = [](std::vector<float>& of, std::int64_t width) { return tensor(of.data(), {Lq, H, 1, width}); };
    const auto size = [](std::int64_t of_one) { return static_cast<std::size_t>(Lq * H * of_one); };
    std::vector<float> made(size(Dv)), sums(size(1)), cotangent = s.reals(Lq * H * Dv);
    const tensor Q = rows(s.q, D), O = rows(made, Dv), L(sums.data(), {Lq, H, 1}),
                 weights(s.importance.data(), {Lq, most});
    attune::run<weighted>(q = Q, k_pool = s.k_pool(), v_pool = s.v_pool(), chosen = s.index(), importance = weights,
                          attune::dsl::kv_lengths = s.kv_lengths(), out = O, lse = L);
    std::vector<float> of_q(s.q.size()), of_k(s.k.size()), of_v(s.v.size()), of_importance(s.importance.size());
    const tensor dQ = rows(of_q, D), dK(of_k.data(), {S, Hk, D}), dV(of_v.data(), {S, Hk, Dv}),
                 dI(of_importance.data(), {Lq, most});
    attune::run<weighted_gradient>(q = Q, k_pool = s.k_pool(), v_pool = s.v_pool(), chosen = s.index(),
                                   importance = weights, attune::dsl::kv_lengths = s.kv_lengths(), lse = L, out = O,
                                   d(out) = rows(cotangent, Dv), d(q) = dQ, d(k_pool) = dK, d(v_pool) = dV,
                                   d(importance) = dI);
    const auto expected = attune::reference::evaluate<weighted_gradient>(
        q = Q, k_pool = s.k_pool(), v_pool = s.v_pool(), chosen = s.index(), importance = weights,
        attune::dsl::kv_lengths = s.kv_lengths(), lse = L, out = O, d(out) = rows(cotangent, Dv));
    CHECK(expected.largest_error("dq", dQ) < 2e-5);
    CHECK(expected.largest_error("dk_pool", dK) < 5e-5);
    CHECK(expected.largest_error("dv_pool", dV) < 5e-5);
    CHECK(expected.largest_error("dimportance", dI) < 5e-5);
    CHECK(std::ranges::any_of(of_k, [](float x) { return x > 0.1f; }));
    CHECK(std::ranges::any_of(of_importance, [](float x) { return x > 0.1f; }));
}
