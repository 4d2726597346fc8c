#pragma once
#include "drawn_graph.hpp"

#include <attune/ir/operations.hpp>

#include <cstdint>
#include <initializer_list>
#include <random>
#include <string_view>
#include <vector>

namespace attune::testing {

/// What else a graph has: gradients, shards and GPUs refuse choices and stores. Of `extremes` it has nothing else: what
/// scores and conditions read may be -infinity, NaN or at an end of i32.
enum class beside : std::uint8_t { nothing, choices, stores, extremes };

/// The tensors of which a graph makes the numbers that blocks of keys are chosen by.
inline constexpr std::string_view deciding_inputs[] = {"q", "k", "by_key", "importance"};
/// An element for them: a quarter of a small integer. Of such numbers kernels compute sums, means and products without
/// rounding, in any order. So they choose the blocks that the reference chooses in double precision, of equal ones the
/// first, too. Of other numbers two blocks may be so near each other that the rounding decides.
float deciding_number(float any);

/// A graph drawn from the whole language: any mask, score modification, computed tensor, cache, statistic and set of
/// outputs that one kernel may have. A third of them has several attention cores.
///
/// The depth must be even. Formulas are kept where f32 and double agree: integers stay far from overflow, reals of
/// formulas within a few units, and reals are compared only as they are read from tensors.
///
/// A call's numbers are `scale`, `gain`, `offset` and `seed`. Its free axes are `entry`, `byte`, `choice`, `short` and
/// `width` of any length from 1; where there are pages, `slot` and `place` are the tokens of a page and the pages of a
/// sequence, and there are as many keys as both multiplied.
///
/// Of extremes: `end` and `other_end` are numbers at the ends of i32, `limit` is a real; the tables of floats are
/// called `extreme_bias_...`, `extreme_limit_...`, `extreme_sink_...`, `extreme_factor_...` (of weights) and
/// `extreme_lse_...`, the output beside the last `extreme_other`, the table of integers `extreme_ends`.
///
/// Of choices: `count` and `share` are numbers, too, `block` an axis at least as long as the keys. Of stores: each
/// sequence has at least as many keys in use as queries, and pages of its own.
class random_graph : public drawn_graph {
public:
    explicit random_graph(unsigned seed, beside drawn = beside::nothing);

private:
    /// The indices and numbers that a formula may mention.
    struct place {
        bool query = false, key = false, channel = false;
        std::vector<node_id> bounds = {};
    };
    struct number {
        node_id node;
        std::int64_t most;  ///< of its magnitude
    };

    int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
    bool one_in(int n) { return below(n) == 0; }

    node_id add(instruction n);
    node_id add(operation op, kind is, std::initializer_list<node_id> arguments = {});
    node_id constant(std::int64_t value);
    node_id constant_real(double value);
    node_id input(std::string_view name, element_type element, std::initializer_list<axis_declaration> axes);
    node_id scalar(std::string_view name, element_type element);
    node_id load(node_id tensor, kind is, std::initializer_list<node_id> at);
    node_id extent(node_id tensor, int axis);
    node_id from_bits(element_type element, node_id bits);
    node_id index(operation op) { return add(op, kind::integer); }
    node_id b() { return index(operation::b); }
    node_id h() { return index(operation::h); }
    node_id query_of(const place& p);
    node_id key_of(const place& p);
    /// An index among so many places, of which there may be none: calls that leave an axis are refused.
    node_id among(node_id places, node_id index);
    node_id among_keys(node_id index);

    operation any_of(family of);  ///< by the table of operations
    number integer_leaf(const place& p);
    number integer(int depth, const place& p);
    node_id at_any(node_id table, int depth, const place& p);
    node_id real_leaf(int depth, const place& p);
    node_id real(int depth, const place& p);
    node_id condition_leaf(int depth, const place& p);
    node_id condition(int depth, const place& p);

    node_id bound(std::string_view name);
    /// A sum, any or largest over a new bound index.
    template <class Body> node_id over(operation op, kind is, const place& p, Body body);

    node_id core_tensor(char which);
    node_id queries(), keys(), values();
    node_id modified(node_id scores);
    node_id dropped(node_id weights);
    node_id bent(node_id output, node_id maximum);
    void draw_outputs(int further_cores);
    /// Tensors of a core, which a further one reads, too, or others in their place.
    struct read_tensors {
        node_id query, key, value;
    };
    /// The output of another core beside the first, and its rows, or both outputs joined.
    node_id with_core(node_id out, const read_tensors& of_first);

    // caches: elements of fewer bits with scales, and pages
    element_type small_element();
    node_id cached(std::string_view name, axis_kind channels, node_id page_of_key, node_id slot_of_key);
    node_id cached_keys(), cached_values(), paged(operation op);
    node_id of_kind(operation op, node_id real, node_id length);
    void add_layer(node_id output);

    // what is precomputed: numbers of blocks of keys, and which of them are the largest
    struct blocks_of_keys {
        int size;                  ///< keys of a block
        int queries;               ///< those that choose together; 0: all of a head
        node_id block, at;         ///< bound indices, of blocks of keys and of queries
        node_id count, positions;  ///< their extents
    };
    node_id made_before(node_id x, const blocks_of_keys& of);
    node_id of_block(node_id tensor, kind is, const blocks_of_keys& of, node_id at, node_id block);
    node_id mean_of_keys(const blocks_of_keys& of), query_of_block(const blocks_of_keys& of, node_id channel);
    node_id product_with_key(const blocks_of_keys& of, node_id key);
    node_id number_of_block(const blocks_of_keys& of, int which);
    /// Scores of which a choice masks some.
    node_id chosen_among(node_id scores);

    struct state {
        node_id out, lse{-1};
    };
    element_type any_float();
    node_id extreme_number(std::string_view used_as), extreme_row(std::string_view used_as);
    node_id end_of_integers(), extreme_condition_leaf();
    state merged(const state& made);
    void draw_extremes();

    /// Stores to what the graph reads at keys.
    void draw_stores();
    node_id new_number(const input_declaration& stored_to);
    bool draw_store(const input_declaration& to);

    beside drawn_;
    std::mt19937 random_;
    bool pages_ = false;  ///< keys of a call are whole pages
};

}  // namespace attune::testing
