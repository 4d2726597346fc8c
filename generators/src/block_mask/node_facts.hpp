#pragma once
#include "analysis/graph_facts.hpp"
#include "expr/interval.hpp"
#include "expr/pointwise.hpp"

namespace attune::generators::inline block_mask {

/// The direction in which a value changes with the one index that it depends on, q_idx or kv_idx.
enum class direction : std::uint8_t { constant, up, down, either, none };

/// One for each node, in order; nodes that depend on both have none.
std::vector<direction> directions(const graph_ir& graph, const std::vector<dependence>& depends, const wrapping& wraps);
direction direction_of(const linear& sum, const std::vector<direction>& of_nodes);

/// Whether a node contains a sum or an any, one for each node.
std::vector<bool> reduces(const graph_ir& graph);

/// Whether a node is made of a key that a list names, one for each node. Blocks of a list have whatever keys.
std::vector<bool> keys_of_lists(const graph_ir& graph, const std::vector<dependence>& depends);
/// Whether a statement is about such a node.
bool is_about(const formula& f, const std::vector<bool>& nodes);

/// Facts about a graph's nodes that are known before any kernel is made, given the dependences `its`.
struct facts {
    facts(const graph_facts& of, std::vector<dependence> its)
        : depends(std::move(its)),
          directions(generators::directions(of.graph, depends, of.wraps)),
          magnitudes(of.magnitudes),
          wraps(of.wraps),
          reduces(generators::reduces(of.graph)),
          of_lists(keys_of_lists(of.graph, depends)) {}
    std::vector<dependence> depends;
    std::vector<direction> directions;
    const std::vector<double>& magnitudes;
    const wrapping& wraps;
    std::vector<bool> reduces, of_lists;
};

/// A sum at one place: an i32 if that holds every step, else an i64.
Halide::Expr value_of(const linear& sum, pointwise& here, const facts& known);
/// Whether a formula holds at one place.
Halide::Expr holds(const formula& f, pointwise& here, const facts& known);

}  // namespace attune::generators::inline block_mask
