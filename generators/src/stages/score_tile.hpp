#pragma once
#include "passes/prefetch_rows.hpp"
#include "passes/trim_tail_rows.hpp"
#include "stages/kernel_frame.hpp"

#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace attune::generators {

/// The scores of a block of queries with a block of keys, one side of the pairs in vector lanes; in decode the channels
/// that are summed.
///
/// Functions of pairs are (in-lane position, other position, key block, query block, head, batch); see `pair`. What
/// depends on one side alone and costs something is hoisted: computed once for a block. Tensors computed from
/// a formula, and the side in lanes, lie in panels.
class score_tile {
public:
    enum class lanes : std::uint8_t { queries, keys, channels };

    /// `pass` begins the names of all functions. The sign of the scale is put into the queries if they are in lanes.
    score_tile(const kernel_frame& frame, std::string pass, lanes along);

    /// The statistic sees `real * scale`, unless `masked`. The scale is positive, and one number for the task.
    Halide::Expr real, masked, scale;
    /// Whether `masked` depends on the products.
    bool masked_by_product{};

    /// Any scores of the graph, at the pair; masked beyond the keys in use, too.
    quantity operator()(int scores);
    /// Weights of the graph, at the pair, where the statistic makes `weight` of it.
    Halide::Expr weights(int node, const Halide::Expr& weight);

    /// All that is hoisted of queries, at one of the block, in a sum.
    Halide::Expr of_query(const Halide::Expr& row) const;

    /// A tensor of the graph, an input or computed, as f32 rows (channel, position in block, block, head, batch).
    Halide::Func rows_of(int tensor, bool of_query, const std::string& name);

    /// The same as it lies in memory, where it is an input: (channel, position in block) of the block and head at hand.
    Halide::Expr element_of(int tensor, bool of_query, const Halide::Expr& channel, const Halide::Expr& position) const;

    /// The arguments of a function of pairs.
    template <class Lane, class Other>
    static std::vector<Halide::Expr> pair_of(const kernel_frame& f, const Lane& lane, const Other& other) {
        return {Halide::Expr(lane), Halide::Expr(other), f.kb, f.qt, f.h, f.b};
    }
    std::vector<Halide::Var> pair() const { return {lane_, other_, f_.kb, f_.qt, f_.h, f_.b}; }

    /// Computes what all keys share at a block of queries, and what all queries share at a block of keys; `storage` is
    /// where they are kept.
    void schedule_queries(const Halide::LoopLevel& block, const Halide::LoopLevel& storage);
    void schedule_keys(const Halide::LoopLevel& block, const Halide::LoopLevel& storage);
    /// Computes what depends on no position, at a level around both of the blocks above.
    void schedule_shared(const Halide::LoopLevel& level);
    /// Products of a few rows with a vector of keys: each is summed in a vector, a few of them in registers, then
    /// within the vectors a `row` at a time. Keys that are computed by a formula are, once for all `keys`.
    void schedule_dots(const Halide::LoopLevel& row, const Halide::LoopLevel& rows, const Halide::LoopLevel& keys);
    /// Rows of so many channels, made by vectors.
    void schedule_row_vectors(Halide::Func rows, int channels) const;
    /// Decode: what the rows of `tensor` are made of in `where` is fetched some keys before `from`, of which an
    /// iteration takes `keys`, reads it.
    void fetch_rows(Halide::Pipeline& pipeline, int tensor, const prefetch_rows::loop& where,
                    const prefetch_rows::loop& from, int keys) const;
    void fetch_keys(Halide::Pipeline& pipeline, const Halide::Func& scores) const;
    /// Where queries lie in lanes, the loops that transpose those of a block.
    std::vector<row_loop> row_loops() const;
    /// What is read of tensors of pairs for the queries of a tile, where those are in lanes.
    void schedule_pairs(const Halide::LoopLevel& tile, const Halide::LoopLevel& storage);
    /// Products for `in_lanes` x `others` pairs at a time, in registers.
    void schedule_products(const Halide::LoopLevel& tile, int in_lanes, int others, int vector);

private:
    friend class gpu_prefill_schedule;
    friend class gpu_decode_state;
    struct contraction {
        int node{};
        bool fixed{};  ///< as many channels as q has
        Halide::RDom each;
        bool paired{};  ///< two channels at a time, as bf16
        Halide::Func query_rows, key_rows, panel, product;
        Halide::Func dots, collected;  ///< (channel modulo the vector, key in block, row, ...): where the channels lie
                                       ///< in lanes; in registers, and of all keys of a vector
        Halide::RDom lane;
    };

    /// A formula over one side's positions and a channel, as rows.
    Halide::Func rows_of_formula(int formula, bool of_query, const std::string& name,
                                 const std::map<int, quantity>& known);
    void hoist(const std::vector<int>& roots, place& at);
    void transpose_pairs(const std::vector<int>& roots);
    void factor_out_scale();
    void contract(contraction& c, bool signs_queries);
    void contract_pairs(contraction& c);
    void sum_in_lanes(contraction& c);
    int channel_vector() const;  ///< side by side, where they lie in lanes
    Halide::Expr with_products(const Halide::Expr& e) const;
    bool is_free_of_products(const Halide::Expr& e) const;
    bool varies(const Halide::Expr& e) const;
    void schedule_rows(Halide::Func rows, bool fixed, int channels, bool of_query, const Halide::LoopLevel& block,
                       const Halide::LoopLevel& storage);
    void schedule_side(bool of_query, const Halide::LoopLevel& block, const Halide::LoopLevel& storage);

    struct stored_rows {
        Halide::Func rows;
        int channels;  ///< 0: known at run time
        bool of_query;
    };

    const kernel_frame& f_;
    const std::string pass_;
    const lanes along_;
    const std::vector<dependence> depends_;  ///< in decode what depends on the query head depends on the row
    const Halide::Var lane_, other_;
    place at_;
    std::vector<contraction> contractions_;
    Halide::Func keys_, last_key_;
    Halide::Expr sign_ = 1.0f;
    std::vector<Halide::Func> hoisted_of_queries_, hoisted_of_keys_, hoisted_of_task_;
    std::vector<std::string> places_of_keys_;  ///< hoisted integers of keys: they say where rows lie
    std::vector<stored_rows> stored_;
    std::vector<std::pair<Halide::Func, Halide::Func>>
        transposed_;  ///< numbers of pairs with queries in lanes; the same as they lie in memory, keys side by side
};

}  // namespace attune::generators
