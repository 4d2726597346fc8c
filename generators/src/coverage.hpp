#pragma once
#include "interval.hpp"
#include "pointwise.hpp"

#include <map>
#include <memory>

namespace attune::generators {

/// Exact extremes, over each tile of queries or of keys, of what depends on the query or on the key alone: a table read by
/// position, a remainder, any of their mixtures. Computed once a call, a few bytes a tile; shared by all who ask.
class tile_tables {
public:
    tile_tables(const kernel_request& request, const kernel_inputs& inputs, const std::vector<dependence>& depends)
        : request_(request), inputs_(inputs), depends_(depends) {}

    /// Of a node that depends on q_idx or kv_idx, not both; conditions count as 0 and 1.
    interval range(int node, const Halide::Expr& tile, const Halide::Expr& h, const Halide::Expr& b);

private:
    Halide::Func tabulate(int node);

    const kernel_request& request_;
    const kernel_inputs& inputs_;
    const std::vector<dependence>& depends_;
    std::map<int, Halide::Func> tables_;
};

/// A tile of queries and a block of keys.
struct tile {
    Halide::Expr query_tile, key_block, h, b;
};

/// Abstract interpretation of a listing over one tile: which of its pairs are visible. No pair is ever looked at.
class coverage {
public:
    coverage(const kernel_request& request, const kernel_inputs& inputs, const std::vector<dependence>& depends, tile_tables& tables,
             tile at);

    /// Whether softmax sees the pairs of a tile: conditions, hidden scores and the end of the keys together.
    verdict visible(int scores);

    /// Of the conditions and hidden scores alone.
    verdict hidden(int scores) { return range(scores).hidden; }

private:
    interval range(int node);
    interval compute(int node);
    verdict decide(int node);
    verdict compute_verdict(int node);

    const kernel_request& request_;
    const kernel_inputs& inputs_;
    const std::vector<dependence>& depends_;
    tile_tables& tables_;
    tile at_;
    Halide::Expr keys_;
    std::map<int, interval> ranges_;
    std::map<int, verdict> verdicts_;
};

}  // namespace attune::generators
