#pragma once
#include "coverage.hpp"
#include "plan.hpp"

#include <cmath>
#include <limits>

namespace attune::generators {

inline constexpr float lowest = std::numeric_limits<float>::lowest();  ///< a masked pair
inline const float lowest_score = std::nextafter(lowest, 0.0f);        ///< every real score is at least this
inline constexpr float log2_of_e = 1.44269504f;

/// What the stages of one kernel share: inputs, and the names of the axes along which everything lies.
struct kernel_frame {
    kernel_frame(const kernel_request& request, const plan& its)
        : request(request), its(its), cut(request.schedule), depends(dependences(request.graph)), inputs(request, its), tables(request, inputs, depends) {}
    kernel_frame(const kernel_frame&) = delete;

    const kernel_request& request;
    const plan& its;
    const schedule& cut;
    const std::vector<dependence> depends;
    kernel_inputs inputs;
    mutable tile_tables tables;

    Halide::Var d{"d"}, q{"q"}, k{"k"}, h{"h"}, b{"b"};       ///< axes of outputs
    Halide::Var qi{"qi"}, qt{"qt"}, ki{"ki"}, kb{"kb"};       ///< query in block, query block, key in block, key block

    const listing& graph() const { return request.graph; }
    const instruction& node(int n) const { return request.graph.nodes[n]; }
    int depth() const { return request.depths.depth; }
    int value_depth() const { return request.depths.value_depth; }

    Halide::Expr query_at(const Halide::Expr& i) const { return qt * cut.query_block + i; }
    Halide::Expr key_at(const Halide::Expr& i) const { return kb * cut.key_block + i; }
    Halide::Expr read_query(const Halide::Expr& i) const { return clamp(query_at(i), 0, inputs.query_length - 1); }
    Halide::Expr key_blocks() const { return (inputs.key_length + cut.key_block - 1) / cut.key_block; }

    quantity evaluate(int n, const place& at) const { return pointwise(request, inputs, depends, at)(n); }
    /// Which blocks are visited for some scores: 0 not, 1 visited, 2 without a mask as all of their pairs are visible.
    Halide::Expr visit(const verdict& visible) const {
        return select(!visible.may, Halide::cast<std::uint8_t>(0), select(visible.must, Halide::cast<std::uint8_t>(2), Halide::cast<std::uint8_t>(1)));
    }
    /// What is known of the pairs of the tile (kb, qt, h, b), at a scores node.
    verdict visible(int scores) const { return coverage(request, inputs, depends, tables, {qt, kb, h, b}).visible(scores); }
};

}  // namespace attune::generators
