#pragma once
#include "plans/kernel_plan.hpp"
#include "stages/score_tile.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace attune::generators::inline stages {

/// The results of a pass over the keys for each row, whichever way the work is cut.
class row_state {
public:
    virtual ~row_state() = default;

    /// At (in block, query block, head, batch), after the last key: queries in blocks of `block()`.
    virtual Halide::Expr maximum_of(const std::vector<Halide::Expr>& row)
        const = 0;  ///< of the scores, divided by the scale; below every score if the row has none
    virtual Halide::Expr sum_of(
        const std::vector<Halide::Expr>& row) const = 0;  ///< of the softmax's weights relative to the maximum
    virtual Halide::Expr summed_of(int weights,
                                   const std::vector<Halide::Expr>& row) const = 0;  ///< the sum of row_sum
    virtual Halide::Expr accumulated_of(const std::vector<Halide::Expr>& row, const Halide::Expr& d) const = 0;

    /// Whether value depth d of the row belongs to a task that another launch makes again. Undefined if no task does.
    virtual Halide::Expr is_marked(const std::vector<Halide::Expr>& /*row*/, const Halide::Expr& /*d*/) const {
        return {};
    }

    virtual Halide::Expr scale() const = 0;
    virtual int block() const = 0;             ///< queries that a task finishes
    virtual int chunk() const = 0;             ///< value depths that lie side by side; 0 if no values are weighed
    virtual bool depths_in_lanes() const = 0;  ///< else the queries
};

/// Whether any weights are made of scores.
inline bool has_weights(const plan& core) { return core.weights_by != statistic::none || is_softmax(core); }

/// The larger of two scores. It is NaN if either is, but with softmax's weights, where the maximum may lose a NaN:
/// their sum is NaN then.
Halide::Expr larger_score(const plan& core, const Halide::Expr& a, const Halide::Expr& b);

/// Functions of a block's scores. Rows are (row in block, key block, query block, head, batch); pairs as
/// score_tile::pair says.
struct block_weights {
    Halide::Func highest{};   ///< of a row; undefined if no maximum is needed
    Halide::Func weights{};   ///< of pairs: the statistic's own
    Halide::Func sum{};       ///< of a row, of softmax's weights
    Halide::Func weighing{};  ///< of pairs: the factor of values; undefined if none are weighed
    Halide::Func scaled{};    ///< of pairs: the same times the factor that all channels of a value share; undefined if
                              ///< there is none
    std::map<int, Halide::Func> modified{};  ///< of pairs: weights other than the statistic's own, by node
    std::map<int, Halide::Func> row_sums{};  ///< of a row: other sums that the graph asks for, by node

    /// All functions of rows: the maximum first.
    std::vector<Halide::Func> of_rows() const;
    /// All functions of pairs.
    std::vector<Halide::Func> of_pairs(const plan& core) const;
};

/// Makes a row's maximum or sum of a function of pairs.
using reduction = std::function<Halide::Func(const std::string& name, const Halide::Func& pairs, bool maximum)>;

/// Defines the statistic's weights of a block of scores, with the maximum and the sum that they need, and the graph's
/// modified weights and further sums, each once. `rounded` gives the part of a weight that is kept.
block_weights weights_of_block(
    const kernel_frame& frame, const score_tile& scores_at, const Halide::Func& scores, const reduction& reduced,
    const std::function<Halide::Expr(const Halide::Expr&)>& rounded = [](const Halide::Expr& x) { return x; });

/// The numbers of a row's running state, by their places: accumulators first, then, as far as they are needed, the
/// maximum of its scores, the sum of its weights and other sums.
struct state_layout {
    state_layout() = default;
    state_layout(const plan& core, int accumulators, const block_weights& of);

    int accumulators{}, maximum_at{-1}, sum_at{-1};
    std::map<int, int> summed_at;       ///< by node
    std::vector<Halide::Expr> initial;  ///< of all
    int size() const { return static_cast<int>(initial.size()); }
    int beside_accumulators() const { return size() - accumulators; }
    /// The place of row_sum's sum.
    int place_of(int weights, const plan& core) const {
        return weights == core.statistic_node && is_softmax(core) ? sum_at : summed_at.at(weights);
    }
    /// Online softmax: a row's state after a block of keys. `before` is the state before; `here` reads a row of the
    /// block, `accumulated` gives the term that the block adds to an accumulator.
    std::vector<Halide::Expr> with_block(const plan& core, const block_weights& of, const Halide::Expr& scale,
                                         const Halide::FuncRef& before,
                                         const std::function<Halide::Expr(const Halide::Func&)>& here,
                                         const std::function<Halide::Expr(int)>& accumulated) const;
};

/// The factor of a split in softmax's sums over all keys, from its maximum and that of all splits.
Halide::Expr weight_of_split(const Halide::Expr& maximum, const Halide::Expr& of_all, const Halide::Expr& scale);

}  // namespace attune::generators::inline stages
