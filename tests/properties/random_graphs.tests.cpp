// Graphs drawn at random, compiled while the test runs, against the reference. A failure names its seed;
// ATTUNE_SEED=<n> runs that one alone.
#include <attune/workload.hpp>
#include "../support/compiled.hpp"
#include "random_graph.hpp"

#include <attune/runtime/detail/call.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace attune;
using namespace attune::testing;
using support::shape;
using support::workload;

namespace {

struct depths {
    const char* text;
    std::int64_t depth, value_depth;
};
constexpr std::array cuts{depths{"8", 8, 8}, depths{"16x8", 16, 8}, depths{"4x20", 4, 20}};
const depths& depths_of(unsigned seed) { return cuts[seed % cuts.size()]; }

std::vector<shape> shapes_of(unsigned seed, const kernel& k) {
    const depths& d = depths_of(seed);
    const std::int64_t queries = k.query_block, keys = k.key_block;
    return {{.batches = 2,
             .heads = 4,
             .key_heads = 2,
             .queries = queries + 3,
             .keys = keys + 5,
             .depth = d.depth,
             .value_depth = d.value_depth},
            {.batches = 1,
             .heads = 2,
             .key_heads = 2,
             .queries = 1,
             .keys = 2 * keys + 1,
             .depth = d.depth,
             .value_depth = d.value_depth},
            {.batches = 2,
             .heads = 3,
             .key_heads = 1,
             .queries = 37,
             .keys = 11,
             .depth = d.depth,
             .value_depth = d.value_depth},
            {.batches = 1,
             .heads = 1,
             .key_heads = 1,
             .queries = 5,
             .keys = 0,
             .depth = d.depth,
             .value_depth = d.value_depth}};
}

void draw_inputs(workload& call, const graph_ir& graph, const shape& s) {
    for (const input_declaration& d : graph.inputs) {
        if (d.name == "packed") call.draw(d.name, 0, 255);
        if (d.name == "place" || d.name == "chosen") call.draw(d.name, -2, static_cast<int>(s.keys) + 1);
        if (d.name == "allowed" || d.name == "flag") call.draw(d.name, 0, 1);
    }
}

/// f32 against double: a few units in the last place of the largest number of the output, for each of its operations.
double tolerance(const reference::array& expected) {
    double largest = 1;
    for (double x : expected.values)
        if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
    return 1e-5 * largest;
}

double check_graph(const random_graph& graph, const kernel_table& kernels, unsigned seed) {
    double worst = 0;
    unsigned draw = seed;
    for (const shape& s : shapes_of(seed, kernels.kernels.front()))
        for (const bool with_lengths : {false, true}) {
            if (with_lengths && s.keys < 2) continue;
            workload call(kernels.graph, s, ++draw, random_graph::numbers(), random_graph::lengths());
            draw_inputs(call, kernels.graph, s);
            if (with_lengths)
                call.set_lengths(s.batches == 2 ? std::vector<std::int32_t>{static_cast<int>(s.keys) - 1,
                                                                            static_cast<int>(s.keys / 2)}
                                                : std::vector<std::int32_t>{1});
            INFO("seed " << seed << ", " << s.text() << (with_lengths ? ", with key lengths" : "") << "\n"
                         << graph.text());
            detail::call(kernels, call.arguments(), {.threads = 2});
            const auto expected = call.expected();
            for (const reference::array& output : expected.outputs) {
                INFO(output.name);
                const double error = reference::largest_error(call.view(output.name), output, expected.rows),
                             allowed = tolerance(output);
                CHECK(error <= allowed);
                worst = std::max(worst, error / allowed);
            }
        }
    return worst;
}

void check_seeds(unsigned first, unsigned count) {
    if (const char* said = std::getenv("ATTUNE_SEED"))
        first = static_cast<unsigned>(std::strtoul(said, nullptr, 10)), count = 1;
    std::vector<random_graph> graphs;
    std::vector<support::compiled_graphs::request> requests;
    for (unsigned seed = first; seed < first + count; ++seed) graphs.emplace_back(seed);
    for (unsigned i = 0; i < count; ++i) requests.push_back({graphs[i].view(), depths_of(first + i).text});
    const support::compiled_graphs compiled(requests);
    double worst = 0;
    for (unsigned i = 0; i < count; ++i) worst = std::max(worst, check_graph(graphs[i], compiled[i], first + i));
    std::printf("%u random graphs from seed %u: largest error %.2f of the allowed\n", count, first, worst);
}

}  // namespace

TEST_CASE("random graphs agree with the reference") { check_seeds(1, 8); }

TEST_CASE("many random graphs agree with the reference", "[.full]") {
    for (unsigned batch = 0; batch < 12; ++batch) check_seeds(100 + 10 * batch, 10);
}
