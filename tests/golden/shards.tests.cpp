// The law of shards, of the catalogue: parts of the queries and keys of every golden file, one after the other, come to
// what one call does.
#include "../shards/cut_call.hpp"
#include "golden.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdio>

using namespace attune;
using namespace attune::testing;
using dsl::detail::shard_fault;

namespace {

struct tally {
    int as_they_are = 0, by_their_sums = 0, without = 0;
    double worst = 0;
};

bool has_inputs_of(const support::tensor_file& file, const graph_ir& graph) {
    return std::ranges::all_of(graph.inputs, [&](const input_declaration& d) {
        const std::string name(d.name);
        return d.is_scalar ? file.params.contains(name)
                           : file.find(name) != nullptr && std::ranges::find(file.outputs, name) == file.outputs.end();
    });
}

void check(const graph_ir& graph, const support::tensor_file& file, unsigned seed, tally& all) {
    drawn_graph whole = copy_of(graph);
    sharded_graph shard = shard_of(whole);
    if (!shard.is_one()) {  // what it has sums of has a shard
        if (!make_shardable(whole)) {
            CHECK((shard.fault == shard_fault::of_tokens || shard.fault == shard_fault::not_a_sum));
            return void(++all.without);
        }
        shard = shard_of(whole);
        if (shard.fault == shard_fault::read_elsewhere) return void(++all.without);
    }
    REQUIRE(shard.is_one());
    ++(whole.outputs == copy_of(graph).outputs ? all.as_they_are : all.by_their_sums);
    reference::options how;
    for (const std::string& output : file.outputs)
        if (const auto& shape = file[output].shape; shape.size() == 4) how.value_depth = shape[3];
    const whole_call call(whole.view(), arguments_of(whole.view(), file), how);
    std::mt19937 random(seed);
    const double error = largest_difference(
        in_parts(call, shard.graph.view(), random_cut(call.queries, call.keys, random), random), call);
    CHECK(error < 1e-12);
    all.worst = std::max(all.worst, error);
}

}  // namespace

TEST_CASE("shards of the catalogue, on random cuts, come to the whole in double precision", "[reference]") {
    tally all;
    unsigned seed = 0;
    for (const auto& path : files_in(folder(), filter())) {
        if (stem_of(path).starts_with("seed")) continue;  // layers
        support::tensor_file file = support::read_safetensors(path);
        file.drop_debug();
        for (const step& each : recipe_for(path).steps)
            if (const auto* computed = std::get_if<graph_step>(&each);
                computed != nullptr && has_inputs_of(file, computed->graph)) {
                INFO(path.filename().string() << "\n" << computed->graph.text);
                check(computed->graph, file, ++seed, all);
            }
    }
    std::printf("%d graphs have shards, %d those of their sums, %d none; largest error %.1e\n", all.as_they_are,
                all.by_their_sums, all.without, all.worst);
    CHECK(all.as_they_are > 90);
}
