#pragma once
#include "analysis/gradient_plan.hpp"
#include "stages/kernel_frame.hpp"

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace attune::generators {

/// The gradients of attention in one sweep over the blocks of queries and keys.
///
/// A task is a part of the queries of one key head: every part-th block of queries, of each head of the group, with the
/// blocks of keys that it sees. Of a block of pairs the scores and the products of dout with v are made a tile at a
/// time, queries in lanes; then come tiles of the numbers that are summed, and rows of sums, channels in lanes: tiles
/// times rows of the other side. Nothing is packed, and no two tasks add to one sum: those of the parts are added up in
/// order, however many threads there are.
class backward_sweep {
public:
    explicit backward_sweep(kernel_frame& frame);

    std::vector<Halide::Func> outputs;  ///< in the graph's order
    void schedule();
    /// The loop that a table guards (skip_blocks.hpp).
    std::pair<std::string, std::string> guarded_loop() const {
        return {sums_.name() + ".s1." + in_chunk_.name(), visits_.name()};
    }

private:
    /// Products of queries' and keys' channels, a number a pair.
    struct contraction {
        int node{};
        Halide::Expr depth;                     ///< constant, or known in the call only
        Halide::Func panel, keys, sums, whole;  ///< keys: unless they are read as they lie
        Halide::RDom channels;
        bool is_kept{};  ///< as a block of pairs, since more than one tile reads it; else by the sums of the one
        int reader{-1};
    };
    struct hoisted {
        Halide::Func values;
        bool of_query{}, of_key{};
    };
    struct side_rows {
        Halide::Func copy;
        bool of_query{};
    };
    /// A channel, a position in the block at hand.
    using channel_of = std::function<Halide::Expr(const Halide::Expr&, const Halide::Expr&)>;

    place at_pair() const;
    Halide::Expr query_at(const Halide::Expr& position) const;
    Halide::Expr query_read(const Halide::Expr& position) const;
    Halide::Expr key_read(const Halide::Expr& position) const;
    bool is_plain_row(int node, int channel) const;
    Halide::Expr element(int tensor, const Halide::Expr& d, const Halide::Expr& position) const;
    Halide::Expr factor(int node, int channel, const Halide::Expr& d, bool of_query,
                        const Halide::Expr& position) const;
    void define_contractions();
    void define_contraction(int node, const Halide::Expr& depth, const channel_of& of_query, const channel_of& of_key,
                            bool keys_as_they_lie);
    void hoist();
    bool is_read_again(int node) const;
    void define_tiles();
    void define_sweep();
    void define_outputs();
    Halide::Expr other_rows(const gradient_term& term, const Halide::Expr& position);
    Halide::Expr rows_of(const gradient_term& term) const;
    Halide::Expr first_row(std::size_t summed) const;
    Halide::Expr made(std::size_t summed, const Halide::Expr& d, const Halide::Expr& position, const Halide::Expr& head,
                      const Halide::Expr& part, const Halide::Expr& b) const;
    std::vector<Halide::Expr> indices(const gradient_term& term, const place& at) const;
    void add_placed(Halide::Func gradient, std::size_t number);

    void schedule_pairs(Halide::Func pairs, const Halide::LoopLevel& at, const Halide::LoopLevel& storage);
    void schedule_contraction(contraction& c, const Halide::LoopLevel& block, const Halide::LoopLevel& key_block,
                              const Halide::LoopLevel& task);
    void schedule_tile(Halide::Func tile, int node, const Halide::LoopLevel& key_block, const Halide::LoopLevel& task);
    void schedule_outputs();

    kernel_frame& f_;
    const cpu_prefill& cut_;
    const gradient_plan plan_;
    const int block_, lanes_;
    int width_{}, row_tile_{}, channel_tile_{};  ///< of the sums: channels; rows and channels in registers
    Halide::Expr parts_, blocks_of_part_, key_blocks_, query_blocks_, group_;
    /// In what lies within a task f_.b is the task, f_.h the head in its group, f_.qt the block in its part; these are
    /// what they stand for.
    Halide::Expr part_, batch_, head_;

    std::vector<contraction> contractions_;
    std::vector<hoisted> hoisted_;
    std::map<int, quantity> known_;
    std::map<int, Halide::Func> tiles_;
    std::vector<side_rows> copies_;
    std::vector<std::size_t> summed_;  ///< terms that the sweep makes
    struct made_of_sums {
        Halide::Func gradient;
        int depth{};
    };
    std::vector<made_of_sums> products_;  ///< outputs that are copied from sums
    Halide::Func keys_{"keys_in_use"}, last_key_{"last_key"};
    Halide::Func product_{"product"}, sums_{"sums"}, visits_{"visits"};
    Halide::RDom within_, sweep_;
    Halide::RVar row_, which_, in_chunk_, chunk_, of_block_, of_group_;
    const Halide::Var c_{"c"}, w_{"w"}, i_{"i"}, n_{"n"};
    const std::vector<Halide::Var> pair_{f_.qi, f_.ki, f_.kb, f_.qt, f_.h, f_.b};
};

}  // namespace attune::generators
