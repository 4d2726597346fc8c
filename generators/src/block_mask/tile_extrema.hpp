#pragma once
#include "block_mask/node_facts.hpp"

#include <map>

namespace attune::generators::inline block_mask {

/// Exact extremes, over each tile of queries or of keys, of numbers that depend on the query or on the key alone: a
/// table read by position, a remainder, any of their mixtures. They are computed once a call, take a few bytes a tile,
/// and are shared.
class tile_tables {
public:
    tile_tables(const kernel_request& request, const kernel_inputs& inputs)
        : request_(request), inputs_(inputs), known_(*request.facts, request.facts->depends) {}

    const kernel_request& request() const { return request_; }
    const kernel_inputs& inputs() const { return inputs_; }
    const facts& known() const { return known_; }

    /// A tile of queries or of keys of a (batch, head).
    struct place {
        bool of_queries{};
        Halide::Expr tile, h, b;
    };

    /// A table that was asked for: elements of `bytes`, one a tile of queries or of keys, for each head and batch
    /// element where they matter.
    struct size {
        bool of_queries{}, by_head{}, by_batch{};
        int bytes{};
        int places{};  ///< elements for each tile of keys beside it, at most; 0: the table has one side alone
    };
    std::vector<size> sizes() const;

    /// The range of a real, or of a condition as 0 and 1.
    interval range(int node, const place& at);
    /// The range of a sum without constant, over the positions where all of `where` hold. If there are none, its lower
    /// end is above its upper end, and both are beyond any value.
    interval range(const linear& sum, const std::vector<formula>& where, const place& at);
    /// The range of the position itself, likewise.
    interval positions(const std::vector<formula>& where, const place& at);
    /// A sum without constant that only rises or only falls, at the first and the last position; for sums that cost
    /// much to compute.
    interval ends(const linear& sum, const place& at);
    /// For a condition that is read at the query and, along the axis of `index`, at a number of keys: whether any and
    /// whether all queries of a tile have it when that number is `position`, one of `places` in a tile of keys.
    interval over_queries(int load, int index, const Halide::Expr& position, int places, const place& at);

private:
    enum class kind_of : std::uint8_t { node, sum, positions, ends, over_queries };
    struct key {
        kind_of what{};
        bool of_queries{};
        int node{-1};
        linear sum{};
        std::vector<formula> where{};
        auto operator<=>(const key&) const = default;
    };
    struct table {
        Halide::Func extremes;  ///< (tile, head, batch), the latter two where they matter; over_queries: (position,
                                ///< tile, head, batch)
        bool by_head{}, by_batch{};
        int places{};  ///< for over_queries: places in a tile of keys
    };
    interval find(const key& wanted, const place& at);
    table make(const key& wanted) const;
    table make_over_queries(int load, int index, int places) const;

    const kernel_request& request_;
    const kernel_inputs& inputs_;
    facts known_;
    std::map<key, table> tables_;
};

}  // namespace attune::generators::inline block_mask
