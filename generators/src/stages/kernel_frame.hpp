#pragma once
#include "block_mask/block_mask.hpp"
#include "stages/visit_byte.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace attune::generators::inline stages {

inline constexpr float lowest = std::numeric_limits<float>::lowest();  ///< a masked pair
inline const float lowest_score = std::nextafter(lowest, 0.0f);        ///< every real score is at least this
inline constexpr float log2_of_e = 1.44269504f;

/// The frame that the stages of one kernel share: inputs, and the names of the axes along which everything lies.
struct kernel_frame {
    /// A frame without a plan answers questions about blocks, and no others.
    explicit kernel_frame(const kernel_request& request, const kernel_plan* planned = nullptr)
        : request(request),
          core(request.core()),
          depends(request.facts->depends),
          cut(request.blocks()),
          inputs(request),
          tables(request, inputs),
          planned_(planned) {
        if (decodes()) stack_heads();
    }
    /// The same tensors in other blocks; not in decode.
    kernel_frame(const kernel_frame& whole, const block_sizes& cut)
        : request(whole.request),
          core(whole.core),
          depends(whole.depends),
          cut(cut),
          inputs(whole.inputs),
          tables(request, inputs),
          planned_(whole.planned_) {}
    /// The same tensors and blocks for another attention core of the graph.
    kernel_frame(const kernel_frame& first, const plan& core)
        : request(first.request),
          core(core),
          depends(first.depends),
          cut(first.cut),
          inputs(first.inputs),
          tables(request, inputs),
          planned_(first.planned_) {
        if (decodes()) stack_heads();
    }
    /// The same tensors for another schedule of the graph; not in decode.
    kernel_frame(const kernel_frame& first, const kernel_request& again, const kernel_plan& planned)
        : request(again),
          core(first.core),
          depends(first.depends),
          cut(again.blocks()),
          inputs(first.inputs),
          tables(request, inputs),
          planned_(&planned) {}
    kernel_frame(const kernel_frame&) = delete;

    const kernel_request& request;
    const plan& core;
    const std::vector<dependence>& depends;
    const block_sizes cut;
    kernel_inputs inputs;
    tile_tables tables;

    static inline const Halide::Var d{"d"}, q{"q"}, k{"k"}, h{"h"}, b{"b"};  ///< axes of outputs
    static inline const Halide::Var qi{"qi"}, qt{"qt"}, ki{"ki"},
        kb{"kb"};  ///< query in block, query block, key in block, key block

    const kernel_plan& planned() const {
        if (!planned_) throw std::logic_error("expected a frame with a plan, got one that only blocks are asked of");
        return *planned_;
    }
    /// The pass over the keys of this frame's core.
    const key_pass& keys() const {
        const plan& first = request.core();
        return planned().pass_of(&core == &first ? 0 : static_cast<int>(&core - first.others.data()) + 1);
    }
    const graph_ir& graph() const { return request.graph(); }
    const instruction& node(int n) const { return request.graph().nodes[n]; }
    int depth() const { return request.depths.depth; }
    int value_depth() const { return request.depths.value_depth; }
    template <class Cut> const Cut& schedule_as() const { return std::get<Cut>(request.schedule); }

    Halide::Expr query_at(const Halide::Expr& i) const { return qt * cut.query_block + i; }
    Halide::Expr key_at(const Halide::Expr& i) const { return kb * cut.key_block + i; }
    Halide::Expr read_query(const Halide::Expr& i) const { return clamp(query_at(i), 0, inputs.query_length - 1); }
    Halide::Expr key_blocks() const { return (inputs.key_length + cut.key_block - 1) / cut.key_block; }

    /// In decode the queries of a key head's group stand one below the other, as rows. In functions of pairs `qi` is
    /// then a row in its block, and `h` a key head. `row_query` and `row_head` are the query and the query head of a
    /// row.
    bool decodes() const { return generators::decodes(request.schedule); }
    Halide::Expr key_heads() const { return decodes() && !has_key_heads(graph()) ? Halide::Expr(1) : inputs.key_heads; }
    Halide::Expr group() const { return max(inputs.heads / max(key_heads(), 1), 1); }
    Halide::Expr queries_stacked() const { return clamp(inputs.query_length, 1, cut.query_block); }
    Halide::Expr rows() const { return group() * queries_stacked(); }
    Halide::Expr row_query(const Halide::Expr& i) const {
        return decodes() ? Halide::Expr(query_of_row(i, qt)) : read_query(i);
    }
    Halide::Expr row_head(const Halide::Expr& i) const {
        return decodes() ? Halide::Expr(head_of_row(i, h)) : Halide::Expr(h);
    }
    /// A query head that reads the key head of keys and values at `h`.
    Halide::Expr some_head() const { return decodes() ? clamp(h * group(), 0, inputs.heads - 1) : Halide::Expr(h); }
    /// The place of a row of outputs among the stacked rows: `row` is (in block, query block, head, batch), blocks of
    /// one query.
    struct stacked_row {
        Halide::Expr row, query_block, key_head, batch;
    };
    stacked_row stacked_row_of(const std::vector<Halide::Expr>& row) const {
        const Halide::Expr query = row[0] + row[1], stacked = queries_stacked(),
                           stacks = (inputs.query_length + stacked - 1) / stacked;
        return {clamp(row[2] % group() * stacked + query % stacked, 0, rows() - 1),
                clamp(query / stacked, 0, max(stacks, 1) - 1), clamp(row[2] / group(), 0, key_heads() - 1), row[3]};
    }
    Halide::Func query_of_row{"query_of_row"}, head_of_row{"head_of_row"};  ///< (row, query block), (row, key head)

    quantity evaluate(int n, const place& at) const { return pointwise(request, inputs, at)(n); }
    Halide::Expr byte_of(int n, const place& at) const { return pointwise(request, inputs, at).byte_of(n); }
    /// The kind of a block for some scores.
    static Halide::Expr kind_of_block(const verdict& visible) {
        return select(!visible.may, number_of(block_kind::empty),
                      select(visible.must, number_of(block_kind::whole), number_of(block_kind::partial)));
    }
    /// The kind for several softmaxes: empty if all are, partial if one is.
    static Halide::Expr joined_kinds(const Halide::Expr& one, const Halide::Expr& other) {
        const Halide::Expr partial = number_of(block_kind::partial);
        return select(one == partial || other == partial, partial, max(one, other));
    }
    /// The verdict on the pairs of the tile (kb, qt, h, b), at a scores node.
    verdict visible(int scores) { return tile_mask(tables, {qt, kb, h, b}).visible(scores); }

private:
    void stack_heads() {
        // Algorithm
        query_of_row(qi, qt) = clamp(qt * cut.query_block + qi % queries_stacked(), 0, inputs.query_length - 1);
        head_of_row(qi, h) = clamp(h * group() + qi / queries_stacked(), 0, inputs.heads - 1);
    }

    const kernel_plan* const planned_;
};

}  // namespace attune::generators::inline stages
