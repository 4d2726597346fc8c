#pragma once
#include "analysis/graph_facts.hpp"

#include <vector>

namespace attune::generators {

/// One sum of a gradient: a deposit (graph_ir.hpp).
struct gradient_term {
    enum class form : std::uint8_t {
        product,    ///< numbers of pairs times rows of the other side: of q, k, v and what is declared as they are
        by_row,     ///< numbers of pairs summed over the keys, then placed by an index that no key decides
        by_column,  ///< the same over the queries
        of_row      ///< a number of a query, placed by an index
    };
    form is{};
    int deposit{};         ///< node
    std::size_t output{};  ///< in graph_ir::outputs
    int value{};           ///< node: the number of a pair, or of a row
    int rows{-1};          ///< node: of a product, the other factor, which depends on `channel`
    int channel{-1};       ///< the bound index, in graph_ir::indices
    bool at_query{};       ///< of a product: whether its rows are those of queries

    /// Whether a row of its sums is a query's, made of a block's keys.
    bool is_of_queries() const { return is == form::by_row || (is == form::product && at_query); }
};

/// What a gradient's kernel makes: pairs' numbers a tile at a time, and sums of them.
struct gradient_plan {
    std::vector<gradient_term> terms;
    std::vector<int> tiles;                         ///< nodes: the pairs' numbers that terms sum, each once, in order
    std::vector<further_contraction> contractions;  ///< under them, beside q * t(k)
};

/// Throws std::runtime_error, a sentence, for what no kernel is made of yet.
gradient_plan gradient_plan_of(const graph_facts& facts);

}  // namespace attune::generators
