#pragma once
#include <attune/mpi/plan.hpp>

#include <cstdint>
#include <vector>

/// A call over the ranks of a plan in virtual time.
namespace simulated {

/// Each node sends and receives at the same time, at `bytes` a second. Nodes stand in racks; what leaves a rack, or
/// enters it, shares `rack` / `oversubscription` times that.
struct network {
    double bytes = 12.5e9, latency = 5e-6, oversubscription = 1;
    int rack = 32;
};

/// Rows of keys from one node to another.
struct transfer {
    int from, to, stage;
    double bytes;
};

/// The work of the nodes by a plan.
struct schedule {
    std::vector<std::vector<double>> computing;  ///< seconds, by node: of its own keys, then of each stage
    std::vector<transfer> transfers{};           ///< each sender's in the order in which it wants to send
    double useful{};                             ///< seconds of all nodes, without joining, waiting or jitter
    std::int64_t messages{};                     ///< a transfer is one for each tensor that travels
};

/// The schedule of all ranks of `plan`, of the graph's work `work`, where each has all heads. A stage takes up to
/// `jitter` times longer, at random.
schedule schedule_of(const attune::mpi::layout& plan, const attune::mpi::work_table& work, double jitter = 0,
                     std::uint32_t seed = 1);

struct outcome {
    double seconds{};     ///< until the last node is ready, with the agreement before the call
    double efficiency{};  ///< useful seconds of all nodes by what they were there for
    double waiting{};     ///< seconds of all nodes in which they wait for keys
};

/// The bytes of a node that shares heads with others, before the first key and after the last.
struct head_exchange {
    double bytes{};
    int messages{};  ///< one after the other, in which all nodes of a share are at work
};
head_exchange head_exchange_of(const attune::mpi::layout& plan);

/// A node computes with its own keys, then stage by stage. It asks for the keys of a stage when it has those of the
/// stage before, as calls over ranks do; the sender hears of that a latency later. A port of a sender carries one
/// message after the other, of those that are asked for the first in its order; a receiver's, in the order of arrival.
outcome simulate(const schedule& what, const network& by);

/// The call of a plan whose nodes share heads or not: of those with the same heads, as every share does the same at the
/// same time by ports of its own, after and before the exchange by heads, which a plan spreads evenly.
outcome simulate(const attune::mpi::layout& plan, const schedule& of_same_heads, network by);

}  // namespace simulated
