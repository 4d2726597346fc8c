#pragma once
#include <attune/mpi/stages.hpp>

namespace attune::mpi {

/// The cost of a call by the model. A rank computes, and sends and receives at the same time. The shorter of the two
/// hides behind the longer, except for one stage's part of it. Each stage joins its results with the earlier ones.
struct cost {
    double seconds{};    ///< of the slowest rank
    double computing{};  ///< seconds, of the rank with most work
    double sending{};    ///< seconds, of the rank with most to send or receive
    double balance{};    ///< the most work of a rank, in means
    double received{};   ///< bytes, of all ranks
    double ring{};       ///< bytes that a ring would send, which sends all keys to all ranks
    int stages{};
    int head_parts = 1;
};

namespace detail {

/// The bytes a token that travel and that are joined.
struct bytes_of_token {
    double keys{}, results{};
    double returned{};             ///< gradients of keys, to the rank that has them
    double rows_in{}, rows_out{};  ///< inputs with rows of a rank, and all outputs: exchanged by heads

    /// The bytes of a share of the heads; `without_heads` are those of tensors without heads.
    bytes_of_token of_part(int parts, const bytes_of_token& without_heads) const;
};

bytes_of_token bytes_of(const graph_ir& shard, const planning& of,
                        std::span<const attune::detail::named_argument> given);
/// The same for tensors without an axis of heads alone.
bytes_of_token bytes_without_heads(const graph_ir& shard, const planning& of,
                                   std::span<const attune::detail::named_argument> given);

/// The cost with the number of stages for which it is least, or with the one that is asked for.
cost cost_of(const work_table& graph, const chunks& tokens, const std::vector<int>& owner, int ranks,
             const bytes_of_token& bytes, const rates& speed, int stages = 0);

/// The same where `parts` ranks share the heads of the tokens of each of `ranks`. `bytes`: of a share of the heads.
cost cost_of_head_parts(int parts, const work_table& graph, const chunks& tokens, const std::vector<int>& owner,
                        int ranks, const bytes_of_token& bytes, rates speed, int stages = 0);

}  // namespace detail
}  // namespace attune::mpi
