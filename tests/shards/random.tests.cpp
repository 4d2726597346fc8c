// The law of shards: calls for parts of the queries and keys, one after the other, come to what one call does.
#include "../properties/random_graph.hpp"
#include "cut_gradient.hpp"

#include <attune/ir/attention_cores.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <set>
#include <string>

using namespace attune;
using namespace attune::testing;

namespace {

/// A call of a random graph: small extents, and lengths in every other one.
struct drawn_call {
    drawn_call(const drawn_graph& graph, unsigned seed, std::mt19937& random)
        : shape(shape_of(graph, random)),
          call(graph.view(), shape, seed, {{"scale", 0.25}, {"gain", 0.75}, {"offset", 7}, {"seed", 4711}}, lengths) {
        if (random() % 2) {
            std::vector<std::int32_t> used;
            for (std::int64_t b = 0; b < shape.batches; ++b)
                used.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(shape.keys + 1)));
            call.set_lengths(used);
        }
    }
    whole_call whole(const drawn_graph& graph) const {
        return {graph.view(), call.reference_arguments(), {.depth = shape.depth, .value_depth = shape.value_depth}};
    }

    std::map<std::string, std::int64_t> lengths{{"entry", 9}, {"byte", 3}, {"choice", 3}, {"short", 4}, {"slot", 3}};
    support::shape shape;
    support::workload call;

private:
    support::shape shape_of(const drawn_graph& graph, std::mt19937& random) {
        const auto below = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
        support::shape drawn{.batches = 1 + below(2),
                             .heads = 2,
                             .key_heads = 1 + below(2),
                             .queries = 1 + below(12),
                             .keys = 1 + below(14),
                             .depth = 4,
                             .value_depth = 6};
        if (std::ranges::find(graph.inputs, "block_table", &input_declaration::name) != graph.inputs.end()) {
            const std::int64_t seats = lengths["seat"] = (drawn.keys + 2) / 3;
            drawn.keys = 3 * seats, lengths["page"] = seats * drawn.batches;
        }
        return drawn;
    }
};

}  // namespace

TEST_CASE("shards of random graphs, on random cuts, come to the whole in double precision") {
    int compared = 0, calls = 0, none_left = 0;
    double worst = 0;
    std::set<operation> operations;
    for (unsigned seed = 0; seed < 600; ++seed) {
        std::mt19937 random(seed * 7 + 1);
        const random_graph drawn(seed);
        drawn_graph graph = drawn;
        graph.keep_one_core();
        if (!make_shardable(graph)) {
            ++none_left;
            continue;
        }
        const sharded_graph shard = shard_of(graph);
        INFO("seed " << seed << "\n" << graph.text() << "\n" << shard.graph.text());
        REQUIRE(shard.is_one());
        REQUIRE(shard.graph.fault().empty());
        const drawn_call drawn_for(graph, seed, random);
        const support::shape& shape = drawn_for.shape;
        const whole_call whole = drawn_for.whole(graph);
        REQUIRE((whole.queries == shape.queries && whole.keys == shape.keys));
        const cut by = random_cut(shape.queries, shape.keys, random);
        const double error = largest_difference(in_parts(whole, shard.graph.view(), by, random), whole);
        CHECK(error < 1e-12);
        worst = std::max(worst, error), ++compared, calls += static_cast<int>(by.queries.size() * by.keys.size());
        for (const instruction& n : graph.nodes) operations.insert(n.op);
    }
    std::printf("%d graphs, %d calls, largest error %.1e; %d drawn graphs have no shard\n", compared, calls, worst,
                none_left);
    CHECK(compared >= 300);
    for (const operation_row& row : operation_table::rows_of_all) {
        const bool refused = row.op == operation::tokens || row.op == operation::sum_over_queries ||
                             row.op == operation::mean_over_heads || row.op == operation::precomputed ||
                             chooses(row.op);
        const bool of_gradients = row.op == operation::each || row.op == operation::deposit;
        const bool behind_the_sum = row.op == operation::as_row || row.op == operation::as_output;
        const bool not_drawn =
            row.op == operation::in_u8 || row.op == operation::in_i16 || row.family == family::recurrent;
        INFO(row.text);
        CHECK((operations.contains(row.op) || refused || of_gradients || behind_the_sum || not_drawn));
    }
}

TEST_CASE("shards of gradients of random graphs, on random cuts, add up to the whole in double precision") {
    int compared = 0, calls = 0, none_left = 0;
    double worst = 0;
    for (unsigned seed = 0; seed < 600; ++seed) {
        std::mt19937 random(seed * 11 + 3);
        drawn_graph graph = random_graph(seed);
        std::vector<std::string_view> of;
        const bool is_shardable = make_shardable(graph) && attention_cores(graph.nodes).count() == 1;
        for (const output_declaration& each : graph.outputs)
            if (graph.nodes[each.node].op != operation::row_maximum) of.push_back(each.name);
        const gradient_of_drawn gradient = is_shardable ? gradient_of(graph, of) : gradient_of_drawn{};
        if (gradient.whole.outputs.empty()) {
            ++none_left;
            continue;
        }
        INFO("seed " << seed << "\n" << graph.text() << "\n" << gradient.whole.text() << "\n" << gradient.shard.text());
        REQUIRE(gradient.is_one);
        const drawn_call drawn_for(graph, seed, random);
        whole_call forward = drawn_for.whole(graph);
        const graph_ir of_whole = gradient.whole.view(), of_shard = gradient.shard.view();
        const whole_gradient whole(forward, of_whole, seed);
        const cut by = random_cut(forward.queries, forward.keys, random);
        const auto run = [&](const std::vector<reference::argument>& call) {
            return reference::evaluate(of_shard, call, forward.how).outputs;
        };
        const double error = largest_difference(gradient_in_parts(forward, whole, of_shard, by, random, run), whole);
        CHECK(error < 1e-11);
        worst = std::max(worst, error), ++compared, calls += static_cast<int>(by.queries.size() * by.keys.size());
    }
    std::printf("%d gradients, %d calls, largest error %.1e; %d drawn graphs have none\n", compared, calls, worst,
                none_left);
    CHECK(compared >= 200);
}
