#pragma once
#include "stages/masked_values.hpp"
#include "stages/score_tile.hpp"
#include "stages/softmax_state.hpp"
#include "stages/subblocks.hpp"

#include <functional>
#include <map>
#include <optional>

namespace attune::generators {

/// The pass over the keys: for each row what its outputs are made of, added up over the blocks that are visited.
///
/// Online softmax: weights are relative to their block's maximum, and the running state is rescaled where a block
/// exceeds it. The value depth is cut into chunks, each with a maximum and a sum of its own beside its accumulators.
class prefill_state : public row_state {
public:
    explicit prefill_state(const kernel_frame& frame);

    Halide::Expr maximum(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr sum(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr summed(int weights, const std::vector<Halide::Expr>& row) const override;
    Halide::Expr accumulated(const std::vector<Halide::Expr>& row, const Halide::Expr& d) const override;

    Halide::Expr scale() const override { return scores_at_.scale; }
    int block() const override { return f_.cut.query_block; }
    int chunk() const override { return chunk_; }
    bool depths_in_lanes() const override { return false; }

    void schedule(const Halide::LoopLevel& task) override;
    std::pair<std::string, std::string> guarded_loop() const override {
        return {state_.name() + ".s1." + blocks_.x.name(), block_kinds_.name()};
    }
    std::vector<clipped_loop> clipped_loops() const override;
    std::vector<row_loop> row_loops() const override;
    void add_passes(Halide::Pipeline& pipeline) const override;

private:
    friend class gpu_prefill_schedule;
    void define_scores();
    void define_weights();
    void define_pairs();
    void define_state();
    void schedule_scores(const Halide::LoopLevel& task);
    void schedule_state(const Halide::LoopLevel& task);
    bool paired() const { return pairing_of(f_.request.schedule) == 2 && chunk_; }
    const cpu_prefill& cut() const { return f_.schedule_as<cpu_prefill>(); }
    bool has_weights() const { return f_.core.weights_by != statistic::none || softmax(); }
    std::vector<Halide::Func> row_sums() const;  ///< and maxima, of a block
    bool softmax() const { return f_.core.weights_by == statistic::softmax || f_.core.log_sum; }
    Halide::Expr of_row(int i, const std::vector<Halide::Expr>& row) const;
    Halide::Expr pair(const Halide::Func& f, const Halide::Expr& i, const Halide::Expr& j) const {
        return f(score_tile::pair_of(f_, i, j));
    }

    const kernel_frame& f_;
    score_tile scores_at_;
    subblocks subblocks_;
    Halide::Func block_kinds_;
    const int chunk_;                  ///< value depths that share a state; 0 where no values are weighed
    int maximum_at_{-1}, sum_at_{-1};  ///< places in the state
    std::map<int, int> summed_at_;     ///< by node

    Halide::Var dc_{"dc"}, qv_{"qv"}, kx_{"kx"}, dx_{"dx"};
    Halide::RDom rk_, masked_, blocks_, pairs_;
    Halide::RDom added_, looked_at_;  ///< keys of a block whose values are added: all, or one pair at a time
    std::optional<masked_values> masked_values_;
    bool separate_mask_{};
    Halide::Func scores_{"scores"}, highest_{"highest"}, weights_{"weights"}, sum_{"sum"}, values_,
        accumulated_{"accumulated"}, weighted_{"weighted"}, state_{"state"}, weight_pairs_{"weight_pairs"},
        value_pairs_{"value_pairs"}, final_{"final"};  ///< on a device: (chunk, query in block, query block, head,
                                                       ///< batch) of the state without accumulators
};

}  // namespace attune::generators
