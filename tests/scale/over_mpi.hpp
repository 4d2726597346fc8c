#pragma once
#include <attune/mpi/context.hpp>
#include <attune/mpi/exchange.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "calls.hpp"
#include "gradient_calls.hpp"
#include "ranks.hpp"

/// Calls of a rank of a job.
namespace attune::testing {

/// Calls by one plan against the reference's call of the whole, and what they send against what was planned.
template <const auto& Whole, const auto& Shard>
void compute(mpi::context& world, const support::shape& of, const std::vector<std::string>& deciding = {},
             const std::vector<std::int32_t>& lengths = {}, int head_parts = 1) {
    const graph_ir of_whole = dsl::ir_of<Whole>, shard = dsl::ir_of<Shard>;
    const attune::whole_call whole(of_whole, of, 5, lengths);
    const bool decodes = of.queries < of.keys;
    for (const bool deterministic : {false, true}) {
        if (deterministic && head_parts > 1) continue;
        const attune::options how{.threads = 1, .deterministic = deterministic};
        auto graphs = to_plan<Shard>(whole.call, deciding);
        for (const auto& each : whole.call.arguments())
            if (each.name == "kv_lengths" && !decodes)
                graphs[0].given.push_back({.name = "lengths", .view = each.view});
        mpi::planning what = decodes ? decode_of(of) : planning_of(of);
        what.head_parts = head_parts;
        const mpi::layout plan = mpi::detail::plan(world, what, graphs, how);
        arguments_of_rank mine(whole.call, of_whole, shard, whole.expected, plan.positions(), decodes);
        const mpi::prepared_call call(
            mpi::detail::prepare(world, plan, attune::detail::table_of<Shard>(), mine.all, how, true));
        const mpi::exchange_plan& planned = plan.graphs()[0];
        for (int times = 0; times < 3; ++times)
            expect(call() == mpi::traffic{planned.bytes_sent(), planned.bytes_received(), planned.messages_sent(),
                                          planned.messages_received()});
        expect(mine.largest_difference() < 2e-5);
        for (const std::vector<float>& each : mine.outputs()) {
            if (!decodes) break;  // the same bits on all ranks
            const auto own = std::as_bytes(std::span(each));
            const std::vector<std::byte> all = world.gather(own, "results");
            for (std::size_t at = 0; at < all.size(); at += own.size())
                expect(std::equal(own.begin(), own.end(), all.begin() + static_cast<std::ptrdiff_t>(at)));
        }
    }
}

/// Gradients by one plan against the reference's of the whole, likewise.
template <const auto& Forward, const auto& Gradient, const auto& Shard>
void compute_gradient(mpi::context& world, const support::shape& of, const std::vector<std::string>& deciding = {}) {
    const whole_gradient_call whole(dsl::ir_of<Forward>, dsl::ir_of<Gradient>, of, 5);
    const mpi::layout plan =
        mpi::detail::plan(world, planning_of(of), to_plan<Shard>(whole.drawn, deciding), {.threads = 1});
    gradient_of_rank mine(whole, dsl::ir_of<Shard>, plan.positions());
    const mpi::prepared_call call(
        mpi::detail::prepare(world, plan, attune::detail::table_of<Shard>(), mine.all, {.threads = 1}, true));
    const mpi::exchange_plan& planned = plan.graphs()[0];
    for (int times = 0; times < 3; ++times)
        expect(call() == mpi::traffic{planned.bytes_sent(), planned.bytes_received(), planned.messages_sent(),
                                      planned.messages_received()});
    expect(mine.largest_difference() < 2e-5);
    const std::vector<float> of_whole = mine.of_whole();
    const auto own = std::as_bytes(std::span(of_whole));
    const std::vector<std::byte> all = world.gather(own, "gradients");
    for (std::size_t at = 0; at < all.size(); at += own.size())  // the same bits on all ranks
        expect(std::equal(own.begin(), own.end(), all.begin() + static_cast<std::ptrdiff_t>(at)));
}

}  // namespace attune::testing
