#pragma once
#include <attune/ir/operations.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace attune::generators::inline analysis {

/// How scores become weights.
enum class statistic : std::uint8_t { none, softmax, unnormalized };

/// sum(n, extent, of_query * of_key): contracted in registers as q * t(k) is.
struct further_contraction {
    int node{};                ///< the sum
    int of_query{}, of_key{};  ///< the factors; neither depends on the other side's position
    int index{}, extent{};     ///< nodes
};

/// The nodes of an attention core; a graph of reals alone has none. Positions in graph_ir::nodes; -1 if there is none.
struct plan {
    int scores{-1};          ///< the statistic's scores; if only scores are made, the outermost of them
    int contraction{-1};     ///< the one q * t(k) under it
    int query{-1}, key{-1};  ///< the contracted tensors: inputs, or computed by queries(...) and keys(...)
    std::vector<further_contraction> further;  ///< under the scores

    statistic weights_by{};
    int statistic_node{-1};           ///< softmax(scores) or unnormalized(scores)
    int sink{-1};                     ///< of softmax
    int weight_digits{};              ///< digits of 8 bits to which weights may be rounded; 0: they are not
    int weights{-1}, value{-1};       ///< of the weighted sums; the value is an input, or computed by values(...)
    std::vector<int> summed_weights;  ///< the weights that row_sum adds up; each once
    bool log_sum{}, maximum{};        ///< whether a log-sum-exp or a row maximum is asked for

    std::vector<kind> outputs;  ///< one for each of graph_ir::outputs
    int saved_rows{};  ///< rows that the kernel's first pass over the scores leaves to a second one: the row maximum
                       ///< and the inverse sum

    int saved_output{-1};  ///< the output from which tokens are made; the kernel writes it for itself

    std::vector<plan> others;                ///< further attention cores; each has only the members above `outputs`
    std::vector<const plan*> cores() const;  ///< all: this one first

    bool has_core() const { return scores >= 0; }
    /// The steps that weights may be rounded to.
    int weight_steps() const { return weight_digits == 1 ? 255 : 32767; }
    /// Whether some output is of this kind.
    bool makes(kind what) const;
    /// Whether a pass over the keys is needed for each row.
    bool needs_state() const {
        return weights_by != statistic::none
                   ? weights >= 0 || log_sum || maximum || !summed_weights.empty() || saved_rows > 0
                   : log_sum || maximum;
    }
};

/// The nodes from which `roots` are computed, themselves included. Nodes below one for which `ends` is true are left
/// out.
std::vector<bool> under(
    const graph_ir& graph, const std::vector<int>& roots,
    const std::function<bool(int)>& ends = [](int) { return false; });

/// Nodes whose value counts whatever conditions say: nodes that stand only in a branch of where(), && or || do not.
std::vector<bool> always_read(const graph_ir& graph);

/// Whether tensors that a formula computes, not inputs, give the number of queries or keys: axes of inputs may then
/// differ from it.
bool length_is_given(const graph_ir& graph, operation computed);

/// The node of each output.
std::vector<int> output_nodes(const graph_ir& graph);

/// The indices on which a node's value depends, and whether it is worth computing once and keeping.
struct dependence {
    bool query{}, key{}, head{}, batch{}, channel{}, score{};
    std::uint64_t bound{};  ///< the bound indices that are free in it, a bit each
    bool costly{};          ///< contains a load, a division, a remainder or a function: keep rather than recompute
    bool irregular{};       ///< is not monotone in its indices: only a table gives its exact range over a tile

    /// One number for all queries, keys and channels of a (batch, head).
    bool uniform() const { return !query && !key && !channel && !score && bound == 0; }
};

/// One for each node, in order. Nodes that are `given` from outside depend on nothing, and count as bound.
std::vector<dependence> dependences(const graph_ir& graph, const std::set<int>& given = {});

/// Sums over products of a factor of the query and a factor of the key, beside q * t(k), under some numbers of pairs.
std::vector<further_contraction> contractions_under(const graph_ir& graph, const std::vector<dependence>& depends,
                                                    const std::vector<int>& roots);

/// Throws std::runtime_error, a sentence in the words of the language, for a graph that is not one kernel.
plan plan_of(const graph_ir& graph, const std::vector<dependence>& depends);

/// Whether a node is an integer that depends only on a channel and on numbers of the call. If such an integer is an
/// index that is always read, the runtime refuses a call in which it leaves its axis; kernels need no check.
bool is_of_channels_alone(const graph_ir& graph, const std::vector<dependence>& depends, int node);

/// The same if the query heads of a group are stacked as rows: a number of the query head, unless it is one of its key
/// head, then depends on the query.
std::vector<dependence> stacked(const graph_ir& graph, std::vector<dependence> depends);

/// Whether the rows of keys or values are read in place: those of an input, or of a formula that is an input's element
/// at kv_idx and d_idx and at indices that are the same for all keys. Elements of one byte are not: they are converted,
/// once for all queries.
bool lies_in_rows(const graph_ir& graph, const std::vector<dependence>& depends, int tensor);

/// The load, if a formula of keys or values is one: an input's element at d_idx and at any other indices, such as those
/// of a page. Else -1.
int load_of_rows(const graph_ir& graph, int tensor);

/// The input whose rows are the queries, keys or values, directly or by such a load. -1 if they are computed.
int input_of_rows(const graph_ir& graph, int tensor);

/// Whether the values of a graph are channels of its keys' rows, as in a cache of latents.
bool values_lie_in_keys(const graph_ir& graph, const std::vector<dependence>& depends, const plan& core);
/// Nodes whose value needs the query head: not one read through an axis of key heads, nor h / (heads / key_heads), the
/// key head. One for each node, in order.
std::vector<bool> of_query_heads(const graph_ir& graph);

/// Why no kernel of a graph is made for decode; empty if one is.
std::string decode_unsupported_reason(const graph_ir& graph, const plan& core);

/// The nodes under `roots`, in reverse order, that are worth computing once for a query, a key or a (batch, head)
/// rather than for every pair or channel. Nodes in `known`, and all below them, are left out.
std::vector<int> hoistable(const graph_ir& graph, const std::vector<dependence>& depends, const std::vector<int>& roots,
                           const std::vector<int>& known);

/// Loads under `roots`, down to the nodes in `known`, whose last axis is read along the keys and another one along the
/// queries.
std::vector<int> loads_of_pairs(const graph_ir& graph, const std::vector<dependence>& depends,
                                const std::vector<int>& roots, const std::vector<int>& known);

}  // namespace attune::generators::inline analysis
