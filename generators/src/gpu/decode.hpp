#pragma once
#include "stages/score_tile.hpp"
#include "stages/softmax_state.hpp"

#include <map>

namespace attune::generators {

/// The pass over the keys of a GPU where queries are few, and keys and values are what there is to read.
///
/// A block of threads has some rows of a key head (the queries of every query head that reads it, one below the other)
/// and a stretch of its keys, so that each key and value is read once for all of these rows. Eight neighbouring threads
/// share a key and read 8 of its channels side by side; what they sum for each row meets in shared memory. Value depths
/// lie in threads too, and a block of keys is shared out among as many as there are threads left, each with a running
/// state of its own in registers. What a block of threads leaves goes to memory, and a second kernel merges it by
/// maximum and sum, always in the same order: bits depend on the number of splits and on nothing else.
class gpu_decode_state : public row_state {
public:
    explicit gpu_decode_state(const kernel_frame& frame);

    Halide::Expr maximum(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr sum(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr summed(int weights, const std::vector<Halide::Expr>& row) const override;
    Halide::Expr accumulated(const std::vector<Halide::Expr>& row, const Halide::Expr& d) const override;

    Halide::Expr scale() const override { return scores_at_.scale; }
    int block() const override { return 1; }
    int chunk() const override { return chunk_; }
    bool depths_in_lanes() const override { return true; }

    /// `task`: a row, of the kernel that merges.
    void schedule(const Halide::LoopLevel& task) override;
    std::pair<std::string, std::string> guarded_loop() const override {
        return {state_.name() + ".s1." + blocks_.x.name(), kinds_of_split_.name()};
    }
    void add_passes(Halide::Pipeline& pipeline) const override;

private:
    void define_ranges();
    void define_weights();
    void define_accumulated();
    void define_state();
    void define_splits();
    void define_merge();
    Halide::Func reduced(const std::string& name, const Halide::Func& pairs, bool maximum);
    void schedule_merge(const Halide::LoopLevel& task);
    void schedule_ranges(const Halide::LoopLevel& own);
    void schedule_rows(const Halide::LoopLevel& own);
    void schedule_blocks(const Halide::LoopLevel& own);
    void schedule_state(const Halide::LoopLevel& own);
    Halide::Stage in_threads(Halide::Stage stage, const Halide::VarOrRVar& i) const;
    void by_rows(Halide::Func f, const Halide::Var& i, int extent) const;
    void by_pairs(Halide::Func f) const;

    bool softmax() const { return f_.core.weights_by == statistic::softmax || f_.core.log_sum; }
    int part_size() const { return (chunk_ ? f_.value_depth() : 0) + extras_; }
    Halide::Expr old(int i) const;
    Halide::Expr part(const Halide::Expr& x, const Halide::Expr& split, const std::vector<Halide::Expr>& row) const;
    Halide::Expr merged(const Halide::Expr& x, const std::vector<Halide::Expr>& row) const;

    static constexpr int looked_at_once = 8;  ///< blocks of keys that are decided on together
    static constexpr int lanes = 16;          ///< threads that share a row's maximum or sum
    static constexpr int warp = 32;
    static constexpr int mergers = 8;         ///< threads that share the parts of an element
    static constexpr int merged_at_once = 8;  ///< parts that each of them asks for at a time

    const kernel_frame& f_;
    const gpu_decode& cut_;
    score_tile scores_at_;
    const int rows_, keys_;  ///< of a task, of a block
    const int chunk_,
        across_;        ///< value depths of a thread, 0 where no values are weighed; threads that go over a row's
    const int down_;    ///< threads beside the eight that share a key
    const int shares_;  ///< of a block's keys, while values are weighed
    const Halide::Expr splits_;        ///< splits of the keys
    int extras_{};                     ///< numbers of a row beside its accumulators
    int maximum_at_{-1}, sum_at_{-1};  ///< places among them
    std::map<int, int> summed_at_;     ///< by node

    Halide::Var sp_{"sp"}, l_{"l"}, x_{"x"}, j_{"j"}, dt_{"dt"}, g_{"g"}, i_{"i"}, p_{"p"}, s_{"s"}, tx_{"tx"},
        ty_{"ty"};
    Halide::RDom rk_, blocks_, merged_splits_, every_;
    Halide::Func seen_{"seen"}, span_of_thread_{"span_of_thread"}, spans_{"spans"}, span_{"span"}, range_{"range"},
        kinds_of_split_{"visits_of_part"}, scores_{"scores"}, highest_, weights_{"weights"}, sum_, values_,
        accumulated_{"accumulated"}, state_{"state"}, left_{"left"}, left_of_rows_{"left_of_rows"}, partial_{"partial"},
        tops_{"tops"}, top_{"top"}, factor_{"factor"}, merging_{"merging"}, merged_{"merged"};
    std::vector<Halide::Func> lane_sums_;  ///< a few of a row's maxima or sums, before they become one
};

}  // namespace attune::generators
