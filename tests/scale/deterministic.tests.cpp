// options::deterministic over several ranks: the bits of one rank.
#include "../shards/variants.hpp"
#include "calls.hpp"
#include "local_transport.hpp"
#include "on_ranks.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <random>
#include <string>

using namespace attune;

namespace {

/// All outputs of the whole sequence, put together of all ranks' rows.
template <const auto& Whole, const auto& Shard>
std::vector<float> results(int ranks, mpi::arrangement how, const whole_call& whole, const support::shape& shape,
                           const std::vector<std::string>& deciding) {
    const graph_ir of_whole = dsl::ir_of<Whole>, shard = dsl::ir_of<Shard>;
    std::vector<std::vector<float>> outputs;
    for (const reference::array& each : whole.expected.outputs) outputs.emplace_back(each.values.size());
    std::mutex one;
    on_ranks(ranks, {}, [&](std::unique_ptr<mpi::transport> carrier) {
        mpi::context world(std::move(carrier));
        mpi::planning what = planning_of(shape);
        what.layout = how;
        const attune::options by{.threads = 1 + (world.rank() + ranks) % 2, .deterministic = true};
        auto graphs = to_plan<Shard>(whole.call, deciding);
        for (const auto& each : whole.call.arguments())
            if (each.name == "kv_lengths") graphs[0].given.push_back({.name = "lengths", .view = each.view});
        const mpi::layout plan = mpi::detail::plan(world, what, graphs, by);
        arguments_of_rank mine(whole.call, of_whole, shard, whole.expected, plan.positions());
        const mpi::exchange_plan& planned = plan.graphs()[0];
        expect(mpi::detail::run(world, plan, detail::table_of<Shard>(), mine.all, by, true) ==
               mpi::traffic{planned.bytes_sent(), planned.bytes_received(), planned.messages_sent(),
                            planned.messages_received()});
        expect(mine.largest_difference() < 2e-5);
        const std::lock_guard lock(one);
        const std::size_t own = plan.positions().size();
        for (std::size_t o = 0; const std::vector<float>& rows : mine.outputs()) {
            const auto& extents = whole.expected.outputs[o].shape;
            const std::size_t width = extents.size() > 3 ? static_cast<std::size_t>(extents[3]) : 1,
                              all = static_cast<std::size_t>(extents[2]);
            for (std::size_t row = 0; row < rows.size() / width; ++row)
                std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(row * width), width,
                            outputs[o].begin() +
                                static_cast<std::ptrdiff_t>(
                                    (row / own * all + static_cast<std::size_t>(plan.positions()[row % own])) * width));
            ++o;
        }
    });
    std::vector<float> together;
    for (const auto& each : outputs) together.insert(together.end(), each.begin(), each.end());
    return together;
}

/// AddressSanitizer looks at each load of a kernel, and between two of them not all products are fused with sums.
void check_bits(const std::vector<float>& got, const std::vector<float>& alone) {
#if defined(__SANITIZE_ADDRESS__)
    std::size_t near = 0;
    for (std::size_t i = 0; i < alone.size(); ++i) near += got[i] == alone[i] || std::abs(got[i] - alone[i]) < 1e-6F;
    CHECK(near == alone.size());
#else
    CHECK(std::memcmp(got.data(), alone.data(), alone.size() * sizeof(float)) == 0);
#endif
}

template <const auto& Whole, const auto& Shard>
void check(const support::shape& shape, const std::vector<std::string>& deciding,
           const std::vector<std::int32_t>& lengths = {}) {
    using enum mpi::arrangement;
    const whole_call whole(dsl::ir_of<Whole>, shape, 7, lengths);
    const auto alone = results<Whole, Shard>(1, best, whole, shape, deciding);
    for (const int ranks : {1, 2, 3, 4, 7})
        for (const auto how : {best, contiguous, zigzag, striped, greedy, affinity}) {
            CAPTURE(ranks, static_cast<int>(how));
            const auto got = results<Whole, Shard>(ranks, how, whole, shape, deciding);
            check_bits(got, alone);
        }
}

}  // namespace

TEST_CASE("prefill gives the same bits on any number of ranks, in any layout that a plan finds") {
    support::shape shape{.batches = 2, .heads = 4, .key_heads = 2, .queries = 1100, .keys = 1100};
    check<sharded::windowed, sharded::windowed_shard>(shape, {});
    check<sharded::documents, sharded::documents_shard>(shape, {"document"});
    check<sharded::sigmoid_attention, sharded::sigmoid_shard>(shape, {});
    shape.queries = shape.keys = 211;  // one stage
    check<sharded::documents, sharded::documents_shard>(shape, {"document"});
    check<sharded::windowed, sharded::windowed_shard>(shape, {}, {211, 97});
}

namespace {

/// Whether a call over keys that no query sees leaves the bits of what was before.
template <const auto& Shard> bool changes_nothing(std::int64_t queries, std::int64_t keys) {
    std::mt19937 random(5);
    const auto drawn = [&](std::size_t count, float scale) {
        std::vector<float> all(count);
        for (float& each : all) each = scale * (static_cast<float>(random() % 20001) / 10000 - 1);
        return all;
    };
    const auto rows = static_cast<std::size_t>(queries), columns = static_cast<std::size_t>(keys);
    const std::vector<float> q = drawn(rows * 32, 1), k = drawn(columns * 32, 1), out = drawn(rows * 32, 3),
                             statistic = drawn(rows, 80), bias = drawn(rows * 5000, 1), by_key = drawn(columns, 1),
                             slopes{0.1f}, sinks{0.3f};
    std::vector<float> sum(rows * 32), statistics[2] = {std::vector<float>(rows), std::vector<float>(rows)};
    std::vector<std::int32_t> query_positions(rows), key_positions(columns), document(5000), lengths{5000};
    std::iota(query_positions.begin(), query_positions.end(), 0);
    std::iota(key_positions.begin(), key_positions.end(), 4000);  // behind all queries
    std::vector<detail::named_argument> all;
    const auto& table = detail::table_of<Shard>();
    for (const input_declaration& input : table.graph.inputs) {
        detail::named_argument a{.name = input.name};
        if (input.name == "q") a.view = tensor(q.data(), {1, 1, queries, 32});
        if (input.name == "k" || input.name == "v") a.view = tensor(k.data(), {1, 1, keys, 32});
        if (input.name == "out_before") a.view = tensor(out.data(), {1, 1, queries, 32});
        if (input.name == "lse_before" || input.name == "top_before" || input.name == "sum_before")
            a.view = tensor(statistic.data(), {1, 1, queries});
        if (input.name == "bias") a.view = tensor(bias.data(), {queries, 5000});
        if (input.name == "by_key") a.view = tensor(by_key.data(), {1, keys});
        if (input.name == "slopes") a.view = tensor(slopes.data(), {1});
        if (input.name == "sinks") a.view = tensor(sinks.data(), {1});
        if (input.name == "document") a.view = tensor(document.data(), {5000});
        if (input.name == "query_positions") a.view = tensor(query_positions.data(), {queries});
        if (input.name == "key_positions") a.view = tensor(key_positions.data(), {keys});
        if (input.name == "lengths") a.view = tensor(lengths.data(), {1});
        if (input.is_scalar) a.is = detail::named_argument::form::integer;
        if (input.name == "all_queries" || input.name == "all_keys") a.integer = 5000;
        all.push_back(a);
    }
    for (std::size_t o = 0; const output_declaration& output : table.graph.outputs)
        all.push_back({.name = output.name,
                       .view = o++ == 0 ? tensor(sum.data(), {1, 1, queries, 32})
                                        : tensor(statistics[o - 2].data(), {1, 1, queries})});
    detail::call(table, all, {.threads = 1});
    bool same = std::memcmp(sum.data(), out.data(), sum.size() * sizeof(float)) == 0;
    for (std::size_t o = 1; o < table.graph.outputs.size(); ++o)
        same = same && std::memcmp(statistics[o - 1].data(), statistic.data(), rows * sizeof(float)) == 0;
    return same;
}

}  // namespace

TEST_CASE("a call of a shard in which no query sees a key changes no bit of what was before") {
    for (const std::int64_t keys : {0, 7, 300})
        for (const std::int64_t queries : {1, 16, 170}) {
            CAPTURE(keys, queries);
            CHECK(changes_nothing<sharded::windowed_shard>(queries, keys));
            CHECK(changes_nothing<sharded::documents_shard>(queries, keys));
            CHECK(changes_nothing<sharded::sigmoid_shard>(queries, keys));
        }
}

TEST_CASE("fixed stages hold each key that is needed once, at its position") {
    std::mt19937 random(2);
    for (const int ranks : {1, 2, 3, 7})
        for (const std::int64_t tokens : {0, 5, 300, 5000}) {
            const mpi::chunks parts = mpi::cut(tokens, ranks);
            std::vector<int> owner;
            std::vector<std::uint32_t> units;
            for (int c = 0; c < parts.count(); ++c)
                owner.push_back(static_cast<int>(random() % static_cast<unsigned>(ranks))),
                    units.push_back(random() % 3);
            const mpi::detail::chunks_of_ranks by_rank(owner, ranks);
            std::vector<std::vector<std::int32_t>> positions(static_cast<std::size_t>(ranks));
            for (int c = 0; c < parts.count(); ++c) {
                auto& of = positions[static_cast<std::size_t>(owner[static_cast<std::size_t>(c)])];
                of.insert(of.end(), parts.positions(c).begin(), parts.positions(c).end());
            }
            std::int64_t needed = 0, held = 0;
            for (int c = 0; c < parts.count(); ++c) needed += units[static_cast<std::size_t>(c)] ? parts.tokens(c) : 0;
            const int count = mpi::detail::count_of_fixed_stages(tokens), rank = ranks / 2;
            std::vector<bool> seen(static_cast<std::size_t>(tokens));
            for (const mpi::stage& each : mpi::detail::fixed_stages(rank, units, by_rank, parts, count)) {
                auto runs = each.runs;
                runs.insert(runs.end(), each.own.begin(), each.own.end());
                for (const mpi::run_of_keys& run : runs)
                    for (std::int64_t i = 0; i < run.count; ++i, ++held) {
                        const auto position =
                            positions[static_cast<std::size_t>(run.rank)][static_cast<std::size_t>(run.first + i)];
                        CHECK(position == each.first + run.to + i);
                        CHECK(run.to + i < each.keys);
                        CHECK(!seen[static_cast<std::size_t>(position)]);
                        seen[static_cast<std::size_t>(position)] = true;
                    }
            }
            CHECK(held == needed);
        }
    CHECK(mpi::detail::count_of_fixed_stages(1 << 20) == 64);
    CHECK(mpi::detail::count_of_fixed_stages(100000) == 8);
}

TEST_CASE("what cannot have the bits of one rank is refused on all ranks") {
    const auto thrown = [](int ranks, const mpi::planning& asked) {
        std::string sentence;
        std::mutex one;
        on_ranks(ranks, {}, [&](std::unique_ptr<mpi::transport> carrier) {
            mpi::context world(std::move(carrier));
            std::vector<std::int32_t> own;
            for (auto t = static_cast<std::int32_t>(world.rank()); t < asked.tokens; t += ranks) own.push_back(t);
            mpi::planning what = asked;
            if (what.layout == mpi::arrangement::own) what.positions = own;
            const mpi::detail::graph_to_plan graphs[] = {{detail::table_of<sharded::windowed_shard>(), {}}};
            try {
                mpi::detail::plan(world, what, graphs, {.deterministic = true});
            } catch (const error& refusal) {
                const std::lock_guard lock(one);
                expect(sentence.empty() || sentence == refusal.what());
                sentence = refusal.what();
            }
        });
        return sentence;
    };
    CHECK(thrown(2, {.tokens = 100, .layout = mpi::arrangement::own}) ==
          "attune: expected a layout that the plan finds, for options::deterministic over many queries, got the "
          "caller's positions; try leaving .layout and .positions out");
    CHECK(thrown(7, {.tokens = 70}) ==
          "attune: expected tokens of each rank for the kernel that computes all of them, so that "
          "options::deterministic gives the bits of one rank, got 10 on rank 0, for which another kernel is; try fewer "
          "ranks");
    CHECK(thrown(2, {.tokens = 70}).empty());
}
