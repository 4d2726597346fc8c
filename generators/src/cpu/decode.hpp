#pragma once
#include "stages/masked_values.hpp"
#include "stages/score_tile.hpp"
#include "stages/softmax_state.hpp"
#include "stages/subblocks.hpp"

#include <map>
#include <optional>

namespace attune::generators {

/// The pass over the keys in decode, where time goes into reading keys and values.
///
/// A task takes all rows of a key head (the queries of every query head that reads it, stacked) and one split of its
/// keys, so that each key and value is read once. It takes a few keys of a block at a time: first their products with
/// each row, with the channels in lanes, then their values into each row's accumulators, which lie in the cache. The
/// splits of a key head are merged by maximum and sum when rows are written, always in the same order, so that bits
/// depend on the number of splits only: not on threads, batch or the slots' length.
class decode_state : public row_state {
public:
    explicit decode_state(const kernel_frame& frame);

    Halide::Expr maximum(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr sum(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr summed(int weights, const std::vector<Halide::Expr>& row) const override;
    Halide::Expr accumulated(const std::vector<Halide::Expr>& row, const Halide::Expr& d) const override;

    Halide::Expr scale() const override { return scores_at_.scale; }
    int block() const override { return 1; }
    int chunk() const override { return chunk_ * vector_; }
    bool depths_in_lanes() const override { return true; }

    void schedule(const Halide::LoopLevel& task) override;
    std::pair<std::string, std::string> guarded_loop() const override {
        return {state_.name() + ".s1." + blocks_.x.name(), kinds_of_split_.name()};
    }
    std::vector<clipped_loop> clipped_loops() const override;
    void add_passes(Halide::Pipeline& pipeline) const override;

private:
    void define_ranges();
    void define_weights();
    void define_state();
    void define_splits();
    void define_merge();
    Halide::Func reduced(const std::string& name, const Halide::Func& pairs, bool maximum);
    void schedule_blocks();
    bool softmax() const { return f_.core.weights_by == statistic::softmax || f_.core.log_sum; }
    int state_size() const { return chunk_ + extras_; }
    int part_size() const { return state_size() * vector_ * chunks_; }
    /// Element i, of a chunk of a row, of a part.
    Halide::Expr part(const Halide::Expr& lane, const Halide::Expr& chunk, int i, const Halide::Expr& split,
                      const std::vector<Halide::Expr>& row) const;
    Halide::Expr merged(const Halide::Expr& lane, const Halide::Expr& chunk, int i,
                        const std::vector<Halide::Expr>& row) const;

    const kernel_frame& f_;
    const cpu_decode& cut_;
    subblocks subblocks_;
    Halide::Func block_kinds_;
    score_tile scores_at_;
    const int vector_;  ///< value depths in a vector
    const int chunk_,
        chunks_;    ///< vectors that share a maximum and a sum, 0 where no values are weighed; how many such there are
    int extras_{};  ///< numbers beside the accumulators
    int maximum_at_{-1}, sum_at_{-1};  ///< places in the state
    std::map<int, int> summed_at_;     ///< by node

    Halide::Var sp_{"sp"}, l_{"l"}, dc_{"dc"}, x_{"x"}, task_{"task"}, kx_{"kx"}, qx_{"qx"};
    Halide::RDom rk_, looked_at_, blocks_, splits_;  ///< rk_, looked_at_: keys of a block whose values are added; one
                                                     ///< pair at a time
    std::optional<masked_values> masked_values_;
    Halide::Func span_{"span"}, range_{"range"}, kinds_of_split_{"visits_of_part"}, scores_{"scores"}, highest_,
        weights_{"weights"}, sum_, values_, values_again_{"values_again"}, accumulated_{"accumulated"}, state_{"state"},
        partial_{"partial"}, top_{"top"}, merged_{"merged"};
    std::vector<std::pair<Halide::Func, Halide::RDom>>
        lane_sums_;  ///< a vector of a row's maxima or sums, before they become one
};

}  // namespace attune::generators
