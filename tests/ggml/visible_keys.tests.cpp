#include "visible_keys.hpp"

#include <attune/ir/element.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace {

constexpr float hidden = -std::numeric_limits<float>::infinity();

struct made_mask {
    std::vector<std::uint16_t> values;
    attune::ggml::dense_mask view;
};
/// Rows and batch elements lie farther apart than they are long, and what lies between is seen.
made_mask make(std::int64_t batches, std::int64_t queries, std::int64_t keys,
               const std::function<float(std::int64_t, std::int64_t, std::int64_t)>& value) {
    const std::int64_t row = keys + 3, batch = row * queries + 5;
    made_mask made{std::vector<std::uint16_t>(static_cast<std::size_t>(batch * batches)), {}};
    for (std::int64_t b = 0; b < batches; ++b)
        for (std::int64_t q = 0; q < queries; ++q)
            for (std::int64_t k = 0; k < keys; ++k)
                made.values[static_cast<std::size_t>(b * batch + q * row + k)] = attune::float16(value(b, q, k)).bits;
    made.view = {made.values.data(), batches, queries, keys, batch, row};
    return made;
}

attune::ggml::visible_keys found_in(const made_mask& mask) {
    attune::ggml::visible_keys found;
    find_visible_keys(mask.view, found);
    return found;
}

TEST_CASE("causal rows and windows are intervals, of every batch element") {
    for (const std::int64_t keys : {1, 7, 64, 255, 256, 257, 1000})
        for (const std::int64_t window : {1, 5, 300, 2000}) {
            const std::int64_t queries = 9, offset = keys / 3;
            const auto last = [&](std::int64_t b, std::int64_t q) { return std::min(q + offset + 2 * b, keys - 1); };
            const auto found = found_in(make(2, queries, keys, [&](auto b, auto q, auto k) {
                return k <= last(b, q) && k > last(b, q) - window ? 0.0f : hidden;
            }));
            REQUIRE(found.intervals);
            REQUIRE(found.first.size() == 18);
            for (std::int64_t b = 0; b < 2; ++b)
                for (std::int64_t q = 0; q < queries; ++q) {
                    const auto row = static_cast<std::size_t>(b * queries + q);
                    REQUIRE(found.end[row] == last(b, q) + 1);
                    REQUIRE(found.first[row] == std::max<std::int64_t>(last(b, q) + 1 - window, 0));
                }
        }
}

TEST_CASE("a row without a visible key is an interval of none") {
    const auto found = found_in(make(1, 3, 500, [](auto, auto q, auto) { return q == 1 ? hidden : 0.0f; }));
    CHECK(found.intervals);
    CHECK(found.first == std::vector<std::int32_t>{0, 0, 0});
    CHECK(found.end == std::vector<std::int32_t>{500, 0, 500});
}

TEST_CASE("zeros of both signs are zeros") {
    CHECK(found_in(make(1, 1, 300, [](auto, auto, auto k) { return k % 2 ? -0.0f : 0.0f; })).intervals);
}

TEST_CASE("one element that is neither 0 nor -infinity, or one gap, and the mask is read") {
    for (const std::int64_t keys : {2, 256, 257, 1000})
        for (const std::int64_t place : {std::int64_t{0}, std::int64_t{1}, keys / 2, keys - 1})
            for (const float value : {-1.0f, 0x1p-24f, 65504.0f, std::numeric_limits<float>::infinity(),
                                      std::numeric_limits<float>::quiet_NaN()}) {
                const auto found = found_in(
                    make(1, 2, keys, [&](auto, auto q, auto k) { return q == 1 && k == place ? value : 0.0f; }));
                REQUIRE(!found.intervals);
                REQUIRE(found.first[1] == 0);
                REQUIRE(found.end[1] == keys);
            }
    const auto gap = found_in(make(1, 2, 600, [](auto, auto q, auto k) { return q == 1 && k == 300 ? hidden : 0.0f; }));
    CHECK(!gap.intervals);
    CHECK(gap.end == std::vector<std::int32_t>{600, 600});
}

TEST_CASE("what lies before the first and behind the last visible key of any mask is hidden") {
    std::mt19937 random(3);
    for (int trial = 0; trial < 200; ++trial) {
        const auto keys = static_cast<std::int64_t>(1 + random() % 700);
        const unsigned sparsity = 1 + random() % 400;
        const made_mask mask = make(1, 4, keys, [&](auto, auto, auto) { return random() % sparsity ? hidden : 0.0f; });
        const auto found = found_in(mask);
        bool intervals = true;
        for (std::int64_t q = 0; q < 4; ++q) {
            const std::uint16_t* const row = mask.values.data() + q * mask.view.row_stride;
            std::int64_t first = 0, end = 0;
            for (std::int64_t k = keys; k-- > 0;)
                if (row[k] == 0) first = k, end = end ? end : k + 1;
            for (std::int64_t k = first; k < end; ++k) intervals = intervals && row[k] == 0;
            REQUIRE(found.first[static_cast<std::size_t>(q)] == first);
            REQUIRE(found.end[static_cast<std::size_t>(q)] == end);
        }
        REQUIRE(found.intervals == intervals);
    }
}

// ggml_tests "[.time]": what the pass takes, for results.md.
TEST_CASE("the pass over 4,096 keys", "[.time]") {
    for (const std::int64_t queries : {1, 512}) {
        const made_mask mask =
            make(1, queries, 4096, [&](auto, auto q, auto k) { return k <= 4096 - queries + q ? 0.0f : hidden; });
        attune::ggml::visible_keys found;
        std::vector<double> times(101);
        for (double& time : times) {
            const auto begin = std::chrono::steady_clock::now();
            find_visible_keys(mask.view, found);
            time = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
        }
        std::ranges::sort(times);
        std::printf("%d queries: fastest %.2f us, median %.2f us\n", static_cast<int>(queries), times[0], times[50]);
        CHECK(found.intervals);
    }
}

}  // namespace
