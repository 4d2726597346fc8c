#pragma once
#include "analysis/gradient_products.hpp"
#include "kernel/gradient_schedule.hpp"
#include "stages/gradient_terms.hpp"
#include "stages/masked_values.hpp"
#include "stages/pair_block.hpp"

#include <list>
#include <vector>

namespace attune::generators::inline cpu {

/// The gradients of attention in one sweep over the blocks of queries and keys.
///
/// A block of pairs gives tiles of the numbers that are summed (pair_block.hpp). Tiles times rows of the other side
/// then give rows of sums, channels in lanes. Nothing is packed, and no two tasks add to one sum: the sums of the parts
/// are added up in order, however many threads there are. Terms that are placed pair by pair, by an index of the query
/// and of the key, have a pass of their own over the blocks.
class backward_sweep : public gradient_terms {
public:
    explicit backward_sweep(kernel_frame& frame);

    std::vector<Halide::Func> outputs;  ///< in the graph's order

    /// Terms of an output that is placed pair by pair.
    struct pair_pass {
        pair_block pairs;
        Halide::Func gradient;  ///< as `placed_term` has it
        int stage{};            ///< its update
        Halide::RDom loops{};
        std::size_t key{}, query{}, key_block{}, block{}, group{};  ///< places among the loops
        /// The position of a pair that the last axis of the tensor counts, if it counts one: whole vectors are added.
        enum class along : std::uint8_t { neither, keys, queries };
        along last_axis{};
        Halide::Func numbers{};  ///< along keys: the terms, keys side by side
        std::size_t first_parallel{};
    };
    /// A term that is a matrix product: `matrix`, over the lanes and all else that it depends on, times all rows.
    /// `products` and `total` lie over the axes that decide the place; the lanes and either positions or channels come
    /// first.
    struct product_term {
        Halide::Func matrix, products, total;
        Halide::Func weighs;  ///< whether a row has a number other than 0; undefined if no row is asked
        Halide::Var lanes, row;
        std::vector<Halide::Var> others;
        Halide::RDom summed;
        int rows{};  ///< of a tile
    };
    /// (channel, position, head or key head, batch): the parts' sums, in order; and the gradient that is written, which
    /// is the same function unless it is rounded.
    struct copied_sums {
        Halide::Func sum, gradient;
        int depth{};
    };
    /// A scattered gradient over the axes of its tensor: the f32 sum, and its rounded copy.
    struct rounded_sums {
        Halide::Func sum, gradient;
    };

    // Functions and loops to schedule.
    const sum_layout layout;
    const int subblock;  ///< keys of a sub-block
    /// (key block, query block, head, batch): the sub-blocks of keys that there are; 0: no pair there is seen.
    Halide::Func visits{"visits"};
    pair_block pairs;
    /// (channel, row in block, number of the sum, key block, query block in part, head in group, task): the sums of a
    /// block of pairs over `within`, positions of the other side. If rows of that side are not all finite, the sums go
    /// over `looked_at`: a pair whose number is 0 then adds nothing.
    Halide::Func product{"product"};
    Halide::RDom within, looked_at;
    /// The rows of one side of a block, (block, head in group, task), that numbers of pairs are multiplied by.
    struct scanned_rows {
        non_finite found;
        Halide::RDom each;  ///< vectors of a row, rows
        int rows{};         ///< node
        bool of_query{};
    };
    std::vector<scanned_rows> scanned;
    static inline const Halide::Var lane{"lane"};
    Halide::Func sums{"sums"};  ///< (channel, row among those of all sums, task): over `sweep`
    Halide::RDom sweep;
    /// Its loops: row in tile, tile of rows in block, number of the sum, key block in chunk, query block in part, chunk
    /// of key blocks, head in group.
    Halide::RVar in_tile, tile, which, in_chunk, of_block, chunk, of_group;
    static inline const Halide::Var in_block{"in_block"}, number{"number"};  ///< row in block, number of the sum
    std::list<pair_pass> passes;
    std::map<std::size_t, Halide::Func> wholes;  ///< sums by their number: (channel, position, head or key head, batch)
    /// The same for formulas, by the node and whether they belong to query heads.
    std::map<std::pair<int, bool>, Halide::Func> formed;
    std::vector<product_term> products;
    std::vector<copied_sums> copied;
    std::vector<rounded_sums> rounded;  ///< gradients of placed terms

private:
    void define_visits();
    Halide::Expr left_of(bool of_queries, const Halide::Expr& key_block, const Halide::Expr& query_block) const;
    void define_product();
    void define_sweep();
    void scan(const gradient_sum& sum, const pair_block::channel_of& rows);
    Halide::Expr some_spoilt() const;
    void define_outputs();
    void define_copied(std::size_t output, const std::vector<const gradient_term*>& terms);
    Halide::Expr rows_of(const gradient_sum& sum) const;
    Halide::Expr first_row(std::size_t sum) const;
    Halide::Expr made(std::size_t sum, const Halide::Expr& d, const Halide::Expr& position, const Halide::Expr& head,
                      const Halide::Expr& part, const Halide::Expr& b) const override;
    pair_pass::along last_axis_of(const gradient_term& term) const;
    void add_product(Halide::Func gradient, const gradient_term& term, const gradient_product& is);
    Halide::Func all_of(std::size_t sum);
    Halide::Expr whole(std::size_t sum, const Halide::Expr& d) override;
    Halide::Func rows_of(const gradient_term& term, const gradient_product& is, bool of_heads);
    void add_by_pair(Halide::Func gradient, const gradient_term& term);
};

/// Schedules a gradient's stages for a CPU, and adds the passes that finish their loops.
void apply(const cpu_gradient& cut, backward_sweep& its, const kernel_frame& f, Halide::Pipeline& gradients);

}  // namespace attune::generators::inline cpu
