// Drafts after a long prefix: the blocks of the prefix need no mask.
#include "blocks_lab.hpp"
#include "kernel/cpu_schedule.hpp"

#include <attune/catalogue/jetspec.hpp>
#include <attune/dsl.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>

namespace of_trees {
using namespace attune::dsl;
inline constexpr auto ancestor = input<"ancestor", boolean>(query, axis<"draft">);
inline constexpr auto of_sequences = input<"ancestors", boolean>(batch, query, axis<"draft">);
inline constexpr auto scores = q * t(k) * rsqrt(depth);
inline constexpr auto one_tree = softmax(mask(scores, attune::catalogue::draft_tree(ancestor))) * v;
inline constexpr auto a_tree_each =
    softmax(mask(scores,
                 attune::catalogue::draft_tree([](auto query, auto draft) { return of_sequences(b, query, draft); }))) *
    v;
inline constexpr auto stated =
    softmax(mask(scores, attune::catalogue::tree_causal(scalar<"prefix", i32>, query_length, ancestor))) * v;
}  // namespace of_trees

namespace attune::testing {
namespace {

constexpr int drafts = 24, batches = 2, heads = 2;

/// Of a binary tree: each draft sees itself and those above it.
lab_inputs calls_of(int prefix) {
    lab_inputs in;
    in.batches = batches, in.heads = heads, in.queries = drafts, in.keys = prefix + drafts;
    std::vector<double> seen(drafts * drafts);
    for (int i = 0; i < drafts; ++i)
        for (int j = i;; j = (j - 1) / 2) {
            seen[static_cast<std::size_t>(i * drafts + j)] = 1;
            if (j == 0) break;
        }
    in.tables["ancestor"] = {{drafts, drafts}, seen};
    std::vector<double> twice = seen;
    twice.insert(twice.end(), seen.begin(), seen.end());
    in.tables["ancestors"] = {{batches, drafts, drafts}, twice};
    in.numbers["prefix"] = prefix;
    return in;
}

}  // namespace

TEST_CASE("the blocks of a prefix before a tree of drafts are whole, and those of the tree are looked at") {
    const generators::level& level = generators::level_named("x86-64-v3");
    for (const graph_ir& graph :
         {dsl::ir_of<of_trees::one_tree>, dsl::ir_of<of_trees::a_tree_each>, dsl::ir_of<of_trees::stated>})
        for (const generators::schedule& cut :
             {generators::schedule(generators::default_cpu_decode(level, generators::masking::some)),
              usual_schedule(graph)})
            for (const int prefix : {8192, 8100, 100, 0}) {
                const auto [query_block, key_block] = generators::blocks_of(cut);
                const lab_count seen = count_blocks(graph, cut, calls_of(prefix));
                const int tiles = (drafts + query_block - 1) / query_block * batches * heads;
                INFO(prefix << " keys before the drafts, blocks of " << query_block << " x " << key_block);
                CHECK(seen.wrongly_skipped == 0);
                CHECK(seen.wrongly_unmasked == 0);
                CHECK(seen.visited == seen.blocks);
                CHECK(seen.must == static_cast<std::int64_t>(tiles) * (prefix / key_block));
            }
}

}  // namespace attune::testing
