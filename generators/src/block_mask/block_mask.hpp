#pragma once
#include "block_mask/tile_extrema.hpp"

#include <memory>

namespace attune::generators::inline block_mask {

/// A tile of queries and a block of keys.
struct tile {
    Halide::Expr query_tile, key_block, h, b;
};

/// Abstract interpretation of a graph over one tile: decides which of its pairs are visible without looking at a single
/// one.
class tile_mask {
public:
    /// For the request of the tables.
    tile_mask(tile_tables& tables, tile at);

    /// Whether softmax sees the pairs of a tile: conditions, masked scores and the end of the keys together.
    verdict visible(int scores);

    /// Whether the conditions and masked scores alone mask the pairs.
    verdict masked(int scores);

    /// The verdict on a condition.
    verdict decide(int node);

private:
    tile_mask(const tile_mask& outer, std::shared_ptr<const facts> its, std::map<int, Halide::Expr> indices,
              std::map<int, quantity> fixed);

    /// Queries or keys of the tile that meet some statements about them.
    struct side {
        Halide::Expr first, last;
        std::vector<formula> where;  ///< the statements that `first` and `last` do not express
    };
    struct sides {
        side queries, keys;
    };
    struct parts {
        linear of_query, of_key, of_both, uniform;
    };

    /// Statements that hold together, by the numbers that they are about.
    struct statements {
        std::vector<formula> of_queries, of_keys, of_pairs;
        std::vector<formula>& of_side(bool query) { return query ? of_queries : of_keys; }
    };

    Halide::Expr may(const formula& f);
    Halide::Expr may_all(const std::vector<formula>& parts);
    Halide::Expr joint(const std::vector<formula>& literals);
    bool add_what_follows(statements& said);
    Halide::Expr may_compare_both(const formula& a, const formula& b);
    bool are_bounds(const formula& a, const formula& b, bool of_each_query) const;
    Halide::Expr may_literal(const formula& f, const sides& in);
    Halide::Expr may_compare(const formula& f, const sides& in);
    Halide::Expr may_by_rows(const std::vector<formula>& literals, const sides& in, bool by_queries);
    bool clip(const formula& f, side& of, bool of_queries);
    Halide::Expr may_wrap(const formula& f);
    void restrict(side& of, bool of_queries, std::vector<formula> where);

    parts split(const linear& sum) const;
    bool is_cut(const linear& sum, double others) const;
    Halide::Expr uniform(const linear& sum, double others);
    interval of_side(const linear& sum, bool of_query, const sides& in);
    interval range(const linear& sum, const sides& in);
    interval range(int node, const sides& in);
    interval compute(int node, const sides& in);
    interval of_operation(int node, const sides& in);
    /// Indices of a load that vary in a tile, each of few values.
    struct few_places {
        struct axis {
            int index{};  ///< node
            interval positions;
            int most{};  ///< positions
        };
        std::vector<axis> along;
        bool of_each_query{};  ///< keys that the call chooses for each query: a table has those of a tile
    };
    few_places places_of(int load, const sides& in);
    interval enumerate(int node, const sides& in);
    interval reduce(int node);
    verdict any_of(int node);
    int few_valued_index(int node) const;
    Halide::Expr one_of(int index, const interval& positions, const Halide::Expr& number) const;
    double width(int node) const;
    verdict decide_real(int node, const sides& in);
    tile_mask inside(int index, const Halide::Expr& value) const;
    tile_mask where_is(int node, const Halide::Expr& value) const;
    pointwise at(const Halide::Expr& q, const Halide::Expr& k) const;
    dependence depends_on(const formula& f) const { return generators::depends_on(f, known_.depends); }
    /// Whether tables can hold it: it depends on one index, and has no free bound index.
    bool is_one_sided(const dependence& on) const {
        return on.query != on.key && !on.score && !on.channel && on.bound == 0;
    }
    bool is_uniform(const dependence& on) const { return !on.query && !on.key && !on.score && !on.channel; }

    const kernel_request& request_;
    const kernel_inputs& inputs_;
    tile_tables& tables_;
    std::shared_ptr<const facts> its_;  ///< facts of this graph; fixed nodes count as one number of the tile
    const facts& known_;
    tile at_;
    std::map<int, Halide::Expr> indices_;  ///< of sums around
    std::map<int, quantity> fixed_;
    Halide::Expr keys_;
    formula_reader reader_;
    sides whole_;
    std::map<formula, Halide::Expr> decided_;
};

}  // namespace attune::generators::inline block_mask
