#pragma once
#include <attune/ir/element_type.hpp>

#include <cstdint>
#include <span>
#include <string_view>

namespace attune::mpi {

/// Which rank has which tokens: equally many chunks each.
enum class arrangement : std::uint8_t {
    best,        ///< the one that the cost model says is fastest
    contiguous,  ///< a rank has one piece of the sequence
    zigzag,      ///< one from the front and one from the back
    striped,     ///< every so many chunks
    documents,   ///< pieces between which few pairs are visible stay together where they fit
    affinity,    ///< the longest chunk first, to the rank among the least loaded that needs most of its keys already
    greedy,      ///< the longest chunk first, to the least loaded rank
    ports,       ///< as affinity, but the load is the larger of work and of keys that a rank sends, each in means
    own,         ///< the caller's positions
};

std::string_view name_of(arrangement a);

/// What a rank does in a second, for the choice between arrangements. Bytes and latency are those of a network of 100
/// Gb/s, `read` is what decode reached on two cores of Zen 4, and `merged` is a guess: measure your own.
struct rates {
    double flops = 0;       ///< multiplications and additions; 0: flops_of_a_thread times the threads of a rank
    double bytes = 12.5e9;  ///< sent, and as many received at the same time
    double latency = 5e-6;  ///< seconds of a message
    double merged = 4e9;    ///< bytes of results that a further stage reads and writes again
    double read = 25e9;     ///< bytes of keys that decode reads
};
/// Measured: full attention in f32, depth 64, on two cores of AMD EPYC Zen 4 (tests/benchmarks/results.md).
inline constexpr double flops_of_a_thread = 189e9 / 2;

/// The purpose of a plan: one attention call of all ranks together, and the wishes for the plan. The same on all ranks,
/// except `positions`.
struct planning {
    std::int64_t batches = 1, heads = 1, key_heads = 1, tokens = 0;
    /// Of decode: each rank has all queries, and gets all results; the ranks have the keys of `tokens` positions, of
    /// which kv_lengths may say less. 0: queries are those of the tokens, each on the rank that has its token.
    std::int64_t queries = 0;
    int depth = 0, value_depth = 0;  ///< 0: those of the first kernel
    element_type element{};          ///< of q, k and v; any: those of the first kernel
    arrangement layout{};
    int stages = 0;  ///< of a call; 0: as many as the cost model says
    /// Ranks that have the same tokens while they compute, each some of the heads: q, k, v and the outputs are
    /// exchanged among them by heads (Ulysses). 0: as many as the cost model says; 1: each rank has all heads.
    int head_parts = 0;
    rates speed{};
    std::span<const std::int32_t> positions{};  ///< of this rank, for arrangement::own; all ranks' are each token once
    std::span<const double> weights{};  ///< of several graphs: the calls of each, at least 0; empty: one of each
};

}  // namespace attune::mpi
