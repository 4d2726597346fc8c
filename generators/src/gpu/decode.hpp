#pragma once
#include "stages/kernel_stages.hpp"
#include "stages/merged_splits.hpp"
#include "stages/score_tile.hpp"
#include "stages/softmax_state.hpp"
#include "stages/split_ranges.hpp"

#include <optional>
#include <vector>

namespace attune::generators::inline gpu {

/// The pass over the keys of a GPU for few queries: almost all reads are of keys and values.
///
/// A block of threads has some rows of a key head (the queries of every query head that reads it, one below the other)
/// and a stretch of its keys, so that each key and value is read once for all of these rows. Eight neighbouring threads
/// share a key and read 8 of its channels side by side; their sums for each row meet in shared memory. Value depths lie
/// in threads too. The remaining threads share out a block of keys, each with a running state of its own in registers.
/// A block of threads writes its results to memory, and a second kernel merges them (merged_splits).
class gpu_decode_state : public row_state {
    kernel_frame& f_;
    const gpu_decode& cut_;
    const int chunk_;  ///< value depths of a thread, 0 if no values are weighed

public:
    explicit gpu_decode_state(kernel_frame& frame);

    Halide::Expr maximum_of(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr sum_of(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr summed_of(int weights, const std::vector<Halide::Expr>& row) const override;
    Halide::Expr accumulated_of(const std::vector<Halide::Expr>& row, const Halide::Expr& d) const override;

    Halide::Expr scale() const override { return scores_at.scale; }
    int block() const override { return 1; }
    int chunk() const override { return chunk_; }
    bool depths_in_lanes() const override { return true; }

    static constexpr int looked_at_once = 8;  ///< blocks of keys that are decided on together
    static constexpr int lanes = 16;          ///< threads that share a row's maximum or sum

    // Functions and loops to schedule. Rows are (row, key block, query block, key head, batch), pairs (key in block,
    // row, key block, query block, key head, batch).
    score_tile scores_at;
    const int rows, keys;  ///< of a task, of a block
    const int across;      ///< threads that go over a row's value depths
    const int down;        ///< threads beside the eight that share a key
    const int shares;      ///< of a block's keys, while values are weighed
    Halide::Func seen;     ///< (key block, query block, key head, batch): whether some row sees a key
    split_ranges ranges;
    Halide::Func scores{"scores"};  ///< of pairs
    block_weights weights;
    std::vector<Halide::Func>
        lane_sums;        ///< (thread, row, ...): a few of a row's maxima or sums, before they become one
    Halide::Func values;  ///< (value depth, key in block, key block, key head, batch)
    Halide::Func accumulated{"accumulated"};  ///< (of a thread's depths, thread, row, share of the keys, key block,
                                              ///< query block, key head, batch)
    Halide::Func state{"state"};  ///< (thread, row, share of the keys, split, query block, key head, batch): as layout
                                  ///< says; numbers other than accumulators in every thread
    Halide::Func left{"left"}, left_of_rows{"left_of_rows"};  ///< the same: accumulators; other numbers
    Halide::Func partial{"partial"};  ///< (value depth and then the other numbers, row, split, query block, key head,
                                      ///< batch): the results of a task for each row
    std::optional<merged_splits> merged;
    state_layout layout;
    static inline const Halide::Var sp{"sp"}, l{"l"}, x{"x"}, j{"j"}, dt{"dt"},
        g{"g"};  ///< split, thread, element, of a thread's depths, thread along depths, share of the keys
    Halide::RDom rk, blocks;
    int split_size() const { return (chunk_ ? f_.value_depth() : 0) + layout.beside_accumulators(); }

private:
    static Halide::Func seen_of(kernel_frame& frame);
    void define_weights();
    void define_state();
    void define_splits();
    Halide::Func reduced(const std::string& name, const Halide::Func& of_pairs, bool maximum);
    Halide::Expr old(int i) const;
    /// The place of a number among a row's results: numbers other than accumulators lie behind the value depths.
    int place_of(int number) const { return (chunk_ ? f_.value_depth() : 0) + number - chunk_; }
};

/// Schedules a kernel's stages for a GPU, and adds the passes that finish their loops. Each softmax is a launch of its
/// own, over its own blocks of keys; one more merges the splits of all.
void apply(const gpu_decode& cut, kernel_stages& all, const std::vector<pass_over_keys<gpu_decode_state>>& softmaxes,
           Halide::Pipeline& attention);

}  // namespace attune::generators::inline gpu
