// Dropout keeps the same pairs for every schedule, number of threads and ISA level, as the reference draws them, and as
// many as it says.
#include "in_process.hpp"
#include "src/random.hpp"

#include <attune/dsl.hpp>
#include <attune/dsl/layers.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cmath>

using namespace attune;
using namespace attune::testing;
using support::workload;

namespace {

using namespace attune::dsl;
inline constexpr auto p = scalar<"p", f32>;
inline constexpr auto kept = dropout(softmax(q * t(k) * rsqrt(depth)), p, 987654321987);
inline constexpr auto drawn = outputs(out = kept * v, output<"weights"> = kept);

constexpr std::int64_t batches = 2, head_count = 3, queries_at = 53, keys_at = 96, width = 32;

/// Whether each (b, h, q, key) is kept, as either output tells. The values of key n are all 0 but one, so that the
/// output's channels are weights.
struct masks {
    std::vector<bool> by_output, by_weights;
};

workload call_with(double probability) {
    return workload(ir_of<drawn>,
                    {.batches = batches,
                     .heads = head_count,
                     .key_heads = head_count,
                     .queries = queries_at,
                     .keys = keys_at,
                     .depth = width,
                     .value_depth = width},
                    5, {{"p", probability}});
}

masks kept_by(const kernel_table& kernel, double probability, int threads) {
    workload call = call_with(probability);
    masks found;
    found.by_output.resize(static_cast<std::size_t>(batches * head_count * queries_at * keys_at));
    for (std::int64_t first = 0; first < keys_at; first += width) {
        std::vector<float>& values = call["v"].reals;
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto key = static_cast<std::int64_t>(i) / width % keys_at,
                       channel = static_cast<std::int64_t>(i) % width;
            values[i] = key == first + channel ? 1.0f : 0.0f;
        }
        call.reset_outputs();
        attune::detail::call(kernel, call.arguments(), {.threads = threads});
        const std::vector<float>& result = call["out"].reals;
        for (std::size_t i = 0; i < result.size(); ++i)
            found.by_output[i / width * keys_at + static_cast<std::size_t>(first) + i % width] = result[i] != 0.0f;
    }
    for (const float weight : call["weights"].reals) found.by_weights.push_back(weight != 0.0f);
    return found;
}

std::vector<bool> reference_mask(double probability) {
    constexpr std::int64_t seed = 987654321987;
    std::vector<bool> all;
    for (std::int64_t b = 0; b < batches; ++b)
        for (std::int64_t h = 0; h < head_count; ++h)
            for (std::int64_t q = 0; q < queries_at; ++q)
                for (std::int64_t key = 0; key < keys_at; ++key)
                    all.push_back(reference::keeps(probability,
                                                   static_cast<std::int32_t>(static_cast<std::uint32_t>(seed)),
                                                   static_cast<std::int32_t>(seed >> 32), {b, h, q, key}));
    return all;
}

}  // namespace

TEST_CASE("the same pairs are kept for every schedule, number of threads and level") {
    const std::vector<bool> expected = reference_mask(0.25);
    const std::function<void(generators::cpu_prefill&)> cuts[] = {
        [](generators::cpu_prefill&) {},
        [](generators::cpu_prefill& s) {
            s.query_tile = s.lanes, s.query_block = s.lanes, s.key_tile = 2, s.key_block = 6, s.value_tile = 2,
            s.chunk = 4;
        },
        [](generators::cpu_prefill& s) {
            s.query_tile = 2 * s.lanes, s.query_block = 4 * s.lanes, s.key_tile = 3, s.key_block = 33,
            s.depth_unroll = 1;
        },
        [](generators::cpu_prefill& s) {
            s.query_tile = 2 * s.lanes, s.query_block = 2 * s.lanes, s.key_tile = 1, s.key_block = 100,
            s.value_tile = 1, s.chunk = 8;
        },
    };
    for (const std::string& level : levels_here())
        for (const auto& cut : cuts) {
            const in_process kernel("drawn", ir_of<drawn>, "32", level, cut);
            for (const int threads : {1, 2, 3, 7}) {
                const masks found = kept_by(kernel.table(), 0.25, threads);
                INFO(level << " " << generators::to_json(kernel.request().schedule) << " " << threads << " threads");
                CHECK(found.by_output == expected);
                CHECK(found.by_weights == expected);
            }
        }
}

TEST_CASE("as many are kept as the probability says, neighbours independently of each other") {
    const in_process kernel("drawn", ir_of<drawn>, "32", levels_here().front());
    for (const double probability : {0.1, 0.5, 0.9}) {
        const std::vector<bool> found = kept_by(kernel.table(), probability, 2).by_output;
        double single = 0, both_keys = 0, both_queries = 0, both_heads = 0;
        const std::size_t row = keys_at, head = row * queries_at, count = found.size();
        std::size_t along_keys = 0, along_queries = 0, along_heads = 0;
        for (std::size_t i = 0; i < count; ++i) {
            single += found[i];
            if (i % row + 1 < row) ++along_keys, both_keys += found[i] && found[i + 1];
            if (i % head + row < head) ++along_queries, both_queries += found[i] && found[i + row];
            if (i + head < count) ++along_heads, both_heads += found[i] && found[i + head];
        }
        // Significance 7e-6 each, two-sided: 4.5 standard deviations of so many draws. The mask is a function of the
        // seed, so that nothing here fails by chance.
        const auto agrees = [](double successes, std::size_t of, double share, double dependence) {
            return std::abs(successes / static_cast<double>(of) - share) <
                   4.5 * std::sqrt(dependence * share * (1 - share) / static_cast<double>(of));
        };
        const double share = 1 - probability;
        INFO("p = " << probability);
        CHECK(agrees(single, count, share, 1));
        // Pairs of neighbours overlap, which at most trebles the variance of their number.
        CHECK(agrees(both_keys, along_keys, share * share, 3));
        CHECK(agrees(both_queries, along_queries, share * share, 3));
        CHECK(agrees(both_heads, along_heads, share * share, 3));
    }
}
