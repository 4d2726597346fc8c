#pragma once
#include "analysis/gradient_plan.hpp"
#include "stages/kept_number.hpp"
#include "stages/transposed_pairs.hpp"

#include <functional>
#include <list>
#include <map>
#include <vector>

namespace attune::generators::inline stages {

/// How the work on gradients is cut: a task is a part of the queries of one key head, every part-th block of them, of
/// each head of the group. On a GPU there is one part.
struct backward_tasks {
    explicit backward_tasks(const kernel_frame& f);

    int block;  ///< queries of a block
    Halide::Expr key_blocks, query_blocks, group, key_heads, parts, blocks_of_part;
    Halide::Expr number(const Halide::Expr& batch, const Halide::Expr& key_head, const Halide::Expr& part) const {
        return (batch * key_heads + key_head) * parts + part;
    }
};

/// Blocks of pairs of a query and a key: scores, products of dout with v, and the numbers that a gradient sums, a tile
/// at a time with queries in lanes.
///
/// Within a task f.b is the task, f.h the head in its group, f.qt the block in its part; `part`, `head` and `batch`
/// compute the call's part, head and batch element from them.
class pair_block {
public:
    /// `wanted`: nodes whose numbers are made; `sums`: the sums whose rows are asked for; `kept`: numbers of one side
    /// that are made already.
    pair_block(kernel_frame& f, const backward_tasks& tasks, const std::vector<int>& wanted,
               const std::vector<gradient_sum>& sums, const std::map<int, quantity>& kept = {});

    std::map<int, quantity> known;
    std::map<int, quantity> of_sides;  ///< those of `known` that depend on one side alone, `kept` among them
    Halide::Expr part, batch, head;

    /// The place of a pair of the block.
    place at_pair() const;
    /// Whether a pair lies beyond the lengths.
    Halide::Expr beyond() const;
    /// An element by its channel and its position in the block at hand.
    using channel_of = std::function<Halide::Expr(const Halide::Expr&, const Halide::Expr&)>;
    /// The rows of a product's other side, `width` channels wide: a tensor as it lies, or a copy. On a GPU they are in
    /// shared memory, the rows of a contraction if it has the same ones.
    channel_of rows(const gradient_sum& sum, int width);
    /// An element by its channel, a pair of positions in the block at hand, and which of the two.
    using pair_of = std::function<Halide::Expr(const Halide::Expr&, const Halide::Expr&, const Halide::Expr&)>;
    /// In a kernel of bf16 pairs: the same rows, two positions side by side.
    pair_of rows_in_pairs(const gradient_sum& sum, int width);
    /// In a kernel of bf16 pairs: the numbers of a tile. Two positions of the summed side stand side by side; the first
    /// argument is a position in the block of the sum's own side, not a channel.
    pair_of numbers_in_pairs(const gradient_sum& sum);

    /// Whether the formula of a tile is short enough for registers to hold it for several pairs.
    bool is_short(int tile) const;

    /// Products of queries' and keys' channels, a number a pair.
    struct contraction {
        int node{};
        Halide::Expr depth;  ///< constant, or known in the call only
        Halide::Func panel;  ///< (query in block, channel, query block, head in group, task): queries, in lanes
        Halide::Func rows;   ///< queries as they lie, channels first
        Halide::Func keys;   ///< (channel, key in block, key block, head in group, task), unless read as they lie
        Halide::Func sums;   ///< of pairs, over `channels`
        Halide::Func whole;  ///< of pairs: the sums of a block, if it is kept
        Halide::RDom channels;
        bool in_pairs{};  ///< bf16: the panel has two channels side by side before all else, and so have `channels`
        bool is_kept{};   ///< as a block of pairs, since more than one tile reads it; else the one tile reads `sums`
        int of_query{-1}, of_key{-1};  ///< nodes: tensors whose rows are the panel and `keys`, if these are as they lie
        int reader{-1};                ///< the last of `wanted` that reads it
    };
    /// Rows of one side as they lie, (channel, position in block, block, head in group, task), and the positions first.
    struct turned_rows {
        Halide::Func as_they_lie, positions_first;
    };
    /// A number that is computed once a block: (query in block, query block, head in group, task), or the same of keys,
    /// or (head in group, task).
    struct hoisted_number {
        Halide::Func values{};
        bool of_query{}, of_key{};
        /// If the number is a sum over channels of rows: the sum, over `channels`, and these rows; else undefined.
        Halide::Func sum{};
        Halide::RDom channels{};
        std::vector<turned_rows> rows{};
    };
    /// Rows of one side: (channel, position in block, block, head in group, task), 0 beyond the depth.
    struct side_rows {
        Halide::Func copy;
        int width{};
        bool of_query{};
    };
    /// Rows of bf16: (which of two positions, channel, pair of positions in block, block, head in group, task).
    struct paired_rows {
        Halide::Func copy;
        int rows{};  ///< node
        int width{};
        bool of_query{};
    };
    /// A second copy of a tile of bf16: (which of two keys, query in block, pair of keys in block, ... as pairs).
    struct turned_tile {
        Halide::Func copy;
        int tile{};  ///< node
    };

    // Functions and loops to schedule. Pairs are (query in block, key in block, key block, query block in part, head in
    // group, task).
    const backward_tasks& tasks;
    const std::vector<int> wanted;
    std::map<int, Halide::Func> tiles;  ///< of pairs; 0 if a pair is hidden
    std::vector<contraction> contractions;
    std::vector<hoisted_number> hoisted;
    std::vector<side_rows> copies;
    std::vector<transposed_pairs> transposed;
    std::list<paired_rows> paired;
    std::list<turned_tile> turned;
    Halide::Func keys_in_use{"keys_in_use"}, last_key{"last_key"};  ///< (task)
    static inline const Halide::Var in_panel{"in_panel"};           ///< the channel of panels and keys
    static inline const Halide::Var which{"which"};                 ///< of two neighbours
    const bool in_pairs;                                            ///< products are of pairs of bf16

private:
    place of_side() const;
    Halide::Expr query_at(const Halide::Expr& position) const;
    Halide::Expr query_read(const Halide::Expr& position) const;
    Halide::Expr key_read(const Halide::Expr& position) const;
    bool is_plain_row_of(const Halide::Type& type, int node, int channel) const;
    Halide::Expr stored(int input, const Halide::Expr& d, bool of_query, const Halide::Expr& position) const;
    Halide::Expr element(int tensor, const Halide::Expr& d, bool of_query, const Halide::Expr& position) const;
    int tensor_of_row(int node, int channel) const;
    Halide::Expr factor(int node, int channel, const Halide::Expr& d, bool of_query,
                        const Halide::Expr& position) const;
    quantity formula(int node, bool of_query, const Halide::Expr& position, place where) const;
    void define_contractions();
    void define_contraction(contraction c, const channel_of& of_query, const channel_of& of_key, bool keys_as_they_lie);
    void define_contraction_in_pairs(int node, const Halide::Expr& depth, int of_query, int of_key);
    void enter(contraction c);
    Halide::Expr rounded(const Halide::Expr& number) const;
    void hoist(const std::vector<int>& roots);
    Halide::Expr sum_of_rows(int node, const std::vector<Halide::Var>& over, hoisted_number& of) const;
    bool is_read_again(int node) const;
    void transpose_pairs();
    void define_tiles(const std::vector<gradient_sum>& sums);

    kernel_frame& f_;
    const std::vector<further_contraction> further_;
    const std::vector<Halide::Var> pair_{f_.qi, f_.ki, f_.kb, f_.qt, f_.h, f_.b};
};

}  // namespace attune::generators::inline stages
