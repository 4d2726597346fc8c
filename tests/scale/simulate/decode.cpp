#include "decode.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <vector>

namespace simulated {
namespace {

using attune::mpi::layout, attune::mpi::tree;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Of one node's keys.
double bytes_of_keys(const layout& plan) {
    return plan.graphs()[0].bytes.keys * static_cast<double>(plan.positions().size());
}
double slowest_read(std::span<const layout> plans) {
    double most = 0;
    for (const layout& each : plans) most = std::max(most, bytes_of_keys(each) / each.made_for().speed.read);
    return most;
}
double agreement(std::span<const layout> plans, const network& by) {
    return 2 * by.latency * std::log2(static_cast<double>(plans.size()));
}

/// Two states are read, and one is written.
double joining(const layout& plan) {
    return 3 * static_cast<double>(plan.graphs()[0].state_bytes) / plan.made_for().speed.merged;
}

}  // namespace

decoded tree_of_states(std::span<const layout> plans, const network& by) {
    const double state = static_cast<double>(plans[0].graphs()[0].state_bytes);
    std::vector<double> left(plans.size()), has(plans.size());  // when a node's message left, and it has the results
    decoded made;
    for (std::size_t r = plans.size(); r-- > 0;) {  // whom a node waits for is above it
        const tree& joins = plans[r].graphs()[0].joins;
        double now = bytes_of_keys(plans[r]) / plans[r].made_for().speed.read, port = 0;
        now += joining(plans[r]) * static_cast<double>(joins.own.size() > 1 ? joins.own.size() - 1 : 0);
        for (const tree::message& each : joins.received) {
            if (each.branches.empty()) continue;
            const double count = static_cast<double>(each.branches.size());
            port = std::max(left[at(each.rank)] + by.latency, port) + count * state / by.bytes;
            now = std::max(now, port) + count * joining(plans[r]);
        }
        left[r] = now;
        made.bytes += static_cast<double>(plans[r].graphs()[0].bytes_sent());
        made.messages += plans[r].graphs()[0].messages_sent();
    }
    has[0] = left[0];
    for (std::size_t r = 0; r < plans.size(); ++r) {
        double port = has[r];
        for (const tree::message& each : plans[r].graphs()[0].joins.received | std::views::reverse)
            has[at(each.rank)] = (port += state / by.bytes) + by.latency;
    }
    made.seconds = std::ranges::max(has) + agreement(plans, by);
    return made;
}

decoded ring_of_states(std::span<const layout> plans, const network& by) {
    const double state = static_cast<double>(plans[0].graphs()[0].state_bytes),
                 hops = static_cast<double>(plans.size()) - 1, hop = by.latency + state / by.bytes;
    return {.seconds = slowest_read(plans) + hops * (hop + joining(plans[0])) + std::ceil(std::log2(hops + 1)) * hop +
                       agreement(plans, by),
            .bytes = 2 * hops * state,
            .messages = 2 * (std::ssize(plans) - 1)};
}

decoded ring_of_keys(std::span<const layout> plans, const network& by) {
    double most = 0, all = 0;
    for (const layout& each : plans) most = std::max(most, bytes_of_keys(each)), all += bytes_of_keys(each);
    const double hops = static_cast<double>(plans.size()) - 1, read = slowest_read(plans);
    return {.seconds = read + hops * std::max(read, by.latency + most / by.bytes) + agreement(plans, by),
            .bytes = hops * all,
            .messages = 2 * std::ssize(plans) * (std::ssize(plans) - 1)};
}

}  // namespace simulated
