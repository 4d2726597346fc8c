// Indices in a rank's own tensors that leave the table they are read in: who hears of them, when, and what is written.
#include "../shards/variants.hpp"
#include "calls.hpp"
#include "local_transport.hpp"
#include "on_ranks.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

using namespace attune;

namespace {

constexpr float as_it_was = 7;

struct kind_of_call {
    std::string_view name;
    support::shape shape;
    bool decodes;
    int head_parts;
};
const kind_of_call calls[] = {
    {"prefill", {.batches = 2, .heads = 2, .key_heads = 2, .queries = 90, .keys = 90}, false, 1},
    {"ranks that share heads", {.batches = 2, .heads = 2, .key_heads = 2, .queries = 90, .keys = 90}, false, 2},
    {"decode", {.batches = 2, .heads = 2, .key_heads = 1, .queries = 2, .keys = 90}, true, 1}};

const kernel_table& table() { return detail::table_of<sharded::bucketed_shard>(); }

tensor& of_name(arguments_of_rank& mine, std::string_view name) {
    return std::ranges::find(mine.all, name, &detail::named_argument::name)->view;
}

/// The index of the second sequence and this rank's key 5.
std::int32_t& some_index(arguments_of_rank& mine) {
    const tensor& bucket = of_name(mine, "bucket");
    return static_cast<std::int32_t*>(bucket.mutable_data())[bucket.stride(0) + 5 * bucket.stride(1)];
}

std::span<float> elements_of(arguments_of_rank& mine, std::string_view output) {
    const tensor& all = of_name(mine, output);
    std::size_t count = 1;
    for (const std::int64_t extent : all.shape()) count *= static_cast<std::size_t>(extent);
    return {static_cast<float*>(all.mutable_data()), count};
}
void forget_outputs(arguments_of_rank& mine) {
    for (const char* output : {"out", "lse"}) std::ranges::fill(elements_of(mine, output), as_it_was);
}
bool nothing_is_written(const arguments_of_rank& mine) {
    return std::ranges::all_of(mine.outputs(), [](const std::vector<float>& output) {
        return std::ranges::all_of(output, [](float x) { return x == as_it_was; });
    });
}

/// The work of each of two ranks with a plan and its part of a call.
void on_two_ranks(const kind_of_call& of,
                  const std::function<void(mpi::context&, const mpi::layout&, arguments_of_rank&)>& work) {
    const graph_ir of_whole = dsl::ir_of<sharded::bucketed>, shard = dsl::ir_of<sharded::bucketed_shard>;
    const whole_call whole(of_whole, of.shape, 3);
    on_ranks(2, {}, [&](std::unique_ptr<mpi::transport> carrier) {
        mpi::context world(std::move(carrier));
        mpi::planning what = of.decodes ? decode_of(of.shape) : planning_of(of.shape);
        what.head_parts = of.head_parts;
        const mpi::layout plan =
            mpi::detail::plan(world, what, to_plan<sharded::bucketed_shard>(whole.call, {}), {.threads = 1});
        arguments_of_rank mine(whole.call, of_whole, shard, whole.expected, plan.positions(), of.decodes);
        work(world, plan, mine);
    });
}

void says_whose(const std::string& sentence, std::int32_t index) {
    INFO(sentence);
    CHECK(sentence.starts_with("attune: on rank 1: expected bucket from 0 to 16, an index along row of gains, got " +
                               std::to_string(index) + " at (batch 1, key 5); try "));
}

/// What both ranks are thrown where `spoil` spoils one's tensors: before anything is written. Then what `spoil` returns
/// mends them, and the call is right.
std::string refusal_of(const kind_of_call& of,
                       const std::function<std::function<void()>(arguments_of_rank&, int rank)>& spoil) {
    std::string thrown[2];
    on_two_ranks(of, [&](mpi::context& world, const mpi::layout& plan, arguments_of_rank& mine) {
        forget_outputs(mine);
        const auto mend = spoil(mine, world.rank());
        try {
            mpi::detail::run(world, plan, table(), mine.all, {.threads = 1});
        } catch (const mpi::context_failure&) {
            throw;
        } catch (const error& refusal) {
            thrown[world.rank()] = refusal.what();
        }
        expect(nothing_is_written(mine));
        mend();
        mpi::detail::run(world, plan, table(), mine.all, {.threads = 1});
        expect(mine.largest_difference() < 2e-5);
    });
    CHECK(thrown[0] == thrown[1]);
    return thrown[0];
}

}  // namespace

TEST_CASE("an index of one rank's own that leaves its table is refused by all before they write, and they go on") {
    for (const kind_of_call& of : calls)
        for (const std::int32_t outside : {17, -1}) {
            CAPTURE(of.name, outside);
            says_whose(refusal_of(of,
                                  [&](arguments_of_rank& mine, int rank) {
                                      std::int32_t& index = some_index(mine);
                                      const std::int32_t right = index;
                                      if (rank == 1) index = outside;
                                      return [&index, right] { index = right; };
                                  }),
                       outside);
        }
}

TEST_CASE("lengths that are none or longer than all keys are refused by all ranks before they write, and they go on") {
    for (const std::int32_t outside : {-1, 91}) {
        std::array<std::int32_t, 2> lengths[2];
        const std::string refusal = refusal_of(calls[2], [&](arguments_of_rank& mine, int rank) {
            lengths[rank] = {90, rank == 1 ? outside : 90};
            mine.all.push_back({.name = "lengths", .view = tensor(lengths[rank].data(), {2})});
            return [&lengths, rank] { lengths[rank][1] = 90; };
        });
        INFO(refusal);
        CHECK(refusal.starts_with("attune: on rank 1: expected lengths from 0 to 90, the tokens of all ranks, got " +
                                  std::to_string(outside) + " at batch 1; try "));
    }
}

TEST_CASE("a prepared call with such an index writes nothing on that rank, and fails on all of them") {
    for (const kind_of_call& of : calls) {
        CAPTURE(of.name);
        std::string thrown[2];
        on_two_ranks(of, [&](mpi::context& world, const mpi::layout& plan, arguments_of_rank& mine) {
            const mpi::prepared_call call(mpi::detail::prepare(world, plan, table(), mine.all, {.threads = 1}));
            call();
            expect(mine.largest_difference() < 2e-5);
            forget_outputs(mine);
            if (world.rank() == 1) some_index(mine) = 17;
            try {
                call();
                world.gather({}, "what comes next");  // rank 0 may have done its part before it heard
            } catch (const mpi::context_failure& failure) {
                thrown[world.rank()] = failure.what();
            }
            expect(world.rank() == 0 || nothing_is_written(mine));
            try {
                mpi::detail::run(world, plan, table(), mine.all, {.threads = 1});
                expect(false);
            } catch (const mpi::context_failure&) {  // it makes no more calls
            }
        });
        CHECK(thrown[0] == thrown[1]);
        says_whose(thrown[0], 17);
    }
}

TEST_CASE("prepare takes what its tensors hold when it is called, whatever that is before") {
    for (const kind_of_call& of : calls) {
        CAPTURE(of.name);
        on_two_ranks(of, [&](mpi::context& world, const mpi::layout& plan, arguments_of_rank& mine) {
            const std::int32_t right = some_index(mine);
            if (world.rank() == 1) some_index(mine) = 17;
            const mpi::prepared_call call(mpi::detail::prepare(world, plan, table(), mine.all, {.threads = 1}));
            some_index(mine) = right;
            call();
            expect(mine.largest_difference() < 2e-5);
        });
    }
}
