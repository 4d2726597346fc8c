#pragma once
#include "stages/transposed_pairs.hpp"

#include <map>
#include <string>
#include <vector>

namespace attune::generators::inline stages {

/// The scores of a block of queries with a block of keys. One side of the pairs lies in vector lanes; in decode the
/// summed channels do.
///
/// Functions of pairs are (in-lane position, other position, key block, query block, head, batch); see `pair`. Costly
/// numbers that depend on one side alone are hoisted: computed once for a block. Tensors that a formula makes, and the
/// side in lanes, lie in panels.
class score_tile {
public:
    using lanes = score_plan::lanes;

    /// `pass` begins the names of all functions. The sign of the scale is put into the queries if they are in lanes.
    score_tile(const kernel_frame& frame, std::string pass, const score_plan& planned);

    /// The statistic sees `(real + left_out) * scale`, unless `masked`. The scale is positive, and one number for the
    /// task. `left_out` is a constant term of all scores, on which no weight depends; 0 except in fragments.
    Halide::Expr real, masked, scale;
    float left_out{};
    /// Whether `masked` depends on the products.
    bool masked_by_product{};
    /// Whether nothing is masked but keys behind those in use.
    bool masked_beyond_keys{};

    /// Any scores of the graph, at the pair; they are masked beyond the keys in use as well.
    quantity operator()(int scores) const;
    /// Weights of the graph, at the pair, given the statistic's `weight` of it.
    Halide::Expr weights(int node, const Halide::Expr& weight) const;

    /// `of_pair` at a query and a key of the block whose product is `product`.
    Halide::Expr at_fragment(const Halide::Expr& of_pair, const Halide::Expr& query, const Halide::Expr& key,
                             const Halide::Expr& product) const;

    /// The sum of all hoisted numbers of queries, at one query of the block.
    Halide::Expr of_query(const Halide::Expr& row) const;

    /// A tensor of the graph, an input or computed, as f32 rows (channel, position in block, block, head, batch).
    Halide::Func rows_of(int tensor, bool of_query, const std::string& name);

    /// Narrow rows: their codes at a channel (in f32, and codes of 8 bits also in u8), and the factor that all channels
    /// of a row share. Undefined for a tensor without narrow rows.
    struct scaled_rows {
        Halide::Func codes, bytes;
        Halide::Expr factor;
        Halide::Func scales{};  ///< (block of channels, position in block, block, head, batch)
        int block{};            ///< channels that share a scale; 0: there is none
        int lowest{};           ///< the lowest code of 8 bits
        bool whole{};           ///< codes are integers, and so finite
        bool in_order{};        ///< every channel has the same formula, whatever its position
        int pieces = 1;         ///< equal pieces of a row, each with one formula for all its channels
    };
    scaled_rows narrow_rows_of(int tensor, const std::string& name);

    /// An element of a tensor as it lies in memory, if it is an input or a load: at a channel and a position in the
    /// block at hand, for the head at hand; of a load at its own position.
    Halide::Expr element_of(int tensor, bool of_query, const Halide::Expr& channel, const Halide::Expr& position) const;
    /// The same of a tensor that a formula makes, computed where it is named.
    Halide::Expr computed_element(int tensor, bool of_query, const Halide::Expr& channel,
                                  const Halide::Expr& position) const;

    /// The arguments of a function of pairs.
    template <class Lane, class Other>
    static std::vector<Halide::Expr> pair_of(const kernel_frame& f, const Lane& lane, const Other& other) {
        return {Halide::Expr(lane), Halide::Expr(other), f.kb, f.qt, f.h, f.b};
    }
    /// Steps of the sum over the channels that are written out.
    int written_out() const { return planned_.unroll; }
    std::vector<Halide::Var> pair() const { return {lane_, other_, f_.kb, f_.qt, f_.h, f_.b}; }

    // Functions and loops to schedule.
    struct contraction {
        int node{};
        bool fixed{};  ///< as many channels as q has
        multiplication how{f32_products{}};
        Halide::RDom each;
        Halide::Func query_rows, key_rows;  ///< (channel, position in block, block, head, batch); for tiles, words of
                                            ///< two channels, as is the panel; for integers of queries in lanes, words
                                            ///< of four channels, and a key's codes in bytes
        int pieces = 1;                     ///< pieces of a row, each with one formula for all its channels
        Halide::Expr of_key;                ///< multiplies the product; undefined if nothing does
        Halide::Func panel;            ///< (in-lane position, channel, block, head, batch); of pairs: first (of two)
        Halide::Func product;          ///< of pairs
        Halide::Func dots, collected;  ///< (channel modulo the vector, key in block, row, ...), if channels lie in
                                       ///< lanes: sums in registers, and those of all keys of a vector. Of integers
                                       ///< with queries in lanes `dots` are of pairs
        Halide::RDom lane;
        struct integer_sums {
            Halide::Func sums;    ///< dots over all lanes (row of 4, key in block, 4 rows, ...)
            Halide::Func offset;  ///< the product with a key of lowest codes alone (row in block, ...); of blocks
                                  ///< (lane, block of channels, 4 rows, ...)
            Halide::Func scales, scaled;  ///< of keys; dots times these, as dots; undefined if rows have no blocks
            Halide::RDom blocks;          ///< of channels, whose dots are added up
            int channels{};               ///< of a dot
        } integers;
    };
    std::vector<contraction> contractions;  ///< that of q * t(k) first
    struct stored_rows {
        Halide::Func rows;  ///< (channel, position in block, block, head, batch)
        int channels;       ///< 0: known at run time
        bool of_query;
        int pieces = 1;  ///< of a row, each with one formula for all its channels
    };
    std::vector<stored_rows> stored;
    std::vector<transposed_pairs> transposed;
    Halide::Func keys, last_key;                      ///< (batch)
    std::vector<Halide::Func> hoisted_of_queries;     ///< (query in block, query block, head, batch)
    std::vector<Halide::Func> hoisted_of_keys;        ///< (key in block, key block, head, batch)
    std::vector<Halide::Func> hoisted_of_task;        ///< (head, batch)
    std::map<std::string, Halide::Expr> dense_where;  ///< when hoisted numbers of keys are loaded by vectors
    std::vector<std::string> places_of_keys;          ///< hoisted integers of keys: places of rows
    const lanes along;
    const int channel_vector;  ///< channels side by side, if they lie in lanes

private:
    /// A formula over one side's positions and a channel, as rows.
    Halide::Func rows_of_formula(int formula, bool of_query, const std::string& name,
                                 const std::map<int, quantity>& known);
    void hoist(const std::vector<kept_node>& kept, place& at, bool with_masks = true);
    void hoist_rows(const std::vector<int>& loads, const std::string& name, place& at);
    Halide::Expr dense_along_keys(int node) const;
    place at_row(bool of_query, const std::map<int, quantity>& known) const;
    void transpose_pairs();
    void factor_out_scale();
    void contract(contraction& c, bool signs_queries);
    void contract_pairs(contraction& c);
    void sum_in_lanes(contraction& c);
    void sum_integers(contraction& c);
    void sum_words(contraction& c);
    /// Whether rows of queries are the first axis of pairs, and keys the second.
    static bool queries_first(lanes along) { return along == lanes::queries || along == lanes::fragments; }
    Halide::Expr with_products(const Halide::Expr& e) const;
    bool is_free_of_products(const Halide::Expr& e) const;
    bool varies(const Halide::Expr& e) const;

    const kernel_frame& f_;
    const score_plan& planned_;
    const std::string pass_;
    const Halide::Var lane_, other_;
    place at_;
    Halide::Expr sign_ = 1.0f;
};

}  // namespace attune::generators::inline stages
