// Tables over position in calls over ranks: they have an entry for each token of all ranks, whatever `lengths` leave in
// use; a shorter one is refused on every rank by the same sentence.
#include "../shards/variants.hpp"
#include "calls.hpp"
#include "on_ranks.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

using namespace attune;

namespace {

/// What each of some ranks is refused with a table of so many entries, in the plan or in the call; "" where a call is
/// made, and right.
std::string said(int ranks, bool decodes, std::int64_t entries, std::int64_t of_plan) {
    const support::shape shape{.batches = 2, .heads = 2, .key_heads = 1, .queries = decodes ? 3 : 90, .keys = 90};
    const graph_ir of_whole = dsl::ir_of<sharded::documents>, shard = dsl::ir_of<sharded::documents_shard>;
    const whole_call whole(of_whole, shape, 3,
                           decodes ? std::vector<std::int32_t>{50, 41} : std::vector<std::int32_t>{});
    const auto table_of = [&](std::int64_t count) { return tensor(whole.call["document"].integers.data(), {count}); };
    std::vector<std::string> thrown(static_cast<std::size_t>(ranks));
    on_ranks(ranks, {}, [&](std::unique_ptr<mpi::transport> carrier) {
        mpi::context world(std::move(carrier));
        try {
            auto graphs = to_plan<sharded::documents_shard>(whole.call, std::vector<std::string>{"document"});
            graphs[0].given[0].view = table_of(of_plan);
            const mpi::layout plan =
                mpi::detail::plan(world, decodes ? decode_of(shape) : planning_of(shape), graphs, {.threads = 1});
            arguments_of_rank mine(whole.call, of_whole, shard, whole.expected, plan.positions(), decodes);
            std::ranges::find(mine.all, "document", &detail::named_argument::name)->view = table_of(entries);
            mpi::detail::run(world, plan, detail::table_of<sharded::documents_shard>(), mine.all, {.threads = 1});
            expect(mine.largest_difference() < 2e-5);
        } catch (const mpi::context_failure&) {
            throw;
        } catch (const error& refusal) {
            thrown[static_cast<std::size_t>(world.rank())] = refusal.what();
        }
    });
    for (const std::string& each : thrown) CHECK(each == thrown[0]);
    return thrown[0];
}

}  // namespace

TEST_CASE("a table over position has an entry for each token of all ranks") {
    for (const int ranks : {1, 2, 3})
        for (const bool decodes : {false, true}) {
            CAPTURE(ranks, decodes);
            CHECK(said(ranks, decodes, 90, 90) == "");
            for (const std::int64_t entries : {89, 50, 3, 1})
                for (const std::int64_t of_plan : {entries, std::int64_t{90}}) {
                    const std::string sentence = said(ranks, decodes, entries, of_plan);
                    INFO(entries << " entries, " << of_plan << " in the plan: " << sentence);
                    CHECK(sentence.find("expected an extent of at least 90 (the tokens of all ranks) along position "
                                        "of document, got document: i32 (" +
                                        std::to_string(entries) + ")") != std::string::npos);
                }
        }
}
