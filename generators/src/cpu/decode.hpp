#pragma once
#include "cpu/decode_values.hpp"
#include "stages/kernel_stages.hpp"

#include <deque>
#include <optional>
#include <vector>

namespace attune::generators::inline cpu {

/// The pass over the keys in decode, where time goes into reading keys and values.
///
/// A task takes all rows of a key head (the queries of every query head that reads it, stacked) and one split of its
/// keys, so that each key and value is read once. It takes a few keys of a block at a time. First it multiplies them
/// with each row, with the channels in lanes; then it adds their values to each row's accumulators, which lie in the
/// cache. The splits of a key head are merged by maximum and sum when rows are written, always in the same order. The
/// bits of a result therefore depend on the number of splits only: not on threads, batch or the slots' length.
///
/// Cores that read rows in common share their tasks: a task goes through its split for one core after the other, and
/// rows that the first has read are in the caches.
class decode_state : public row_state {
public:
    /// To be followed by `share_tasks`.
    explicit decode_state(const kernel_frame& frame);

    /// Defines the partial results of the tasks of all cores, and how they are merged. `tasks` names for each core the
    /// first core whose tasks it shares.
    static void share_tasks(std::deque<decode_state>& cores, const std::vector<int>& tasks);

    Halide::Expr maximum_of(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr sum_of(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr summed_of(int weights, const std::vector<Halide::Expr>& row) const override;
    Halide::Expr accumulated_of(const std::vector<Halide::Expr>& row, const Halide::Expr& d) const override;

    Halide::Expr scale() const override { return scores_at.scale; }
    int block() const override { return 1; }
    int chunk() const override { return depths.vectors_a_chunk * depths.width; }
    bool depths_in_lanes() const override { return true; }

    // Functions and loops to schedule. Rows are (row, key block, query block, key head, batch), pairs (key in block,
    // row, key block, query block, key head, batch).
    subblocks parts;
    score_tile scores_at;
    /// Which blocks of keys a split visits.
    struct split_ranges {
        Halide::Func span{"span"};    ///< (query block, key head, batch): the first visited block, and the one after
                                      ///< the last
        Halide::Func range{"range"};  ///< (split, query block, key head, batch): the same for a split
        Halide::Func visits_of_split{"visits_of_split"};  ///< (key block, split, query block, key head, batch)
    };
    split_ranges ranges;
    Halide::Func scores{"scores"};  ///< of pairs
    row_reductions reduced;
    block_weights weights;
    std::optional<decode_values> values;  ///< unless no values are weighed
    Halide::Func state{"state"};  ///< (lane, chunk, row, split, query block, key head, batch): as layout says; numbers
                                  ///< other than accumulators in every lane
    Halide::RDom blocks;
    state_layout layout;
    /// How the value depths of a row lie in its state.
    struct chunking {
        int width;            ///< value depths in a vector
        int vectors_a_chunk;  ///< vectors that share a maximum and a sum, 0 if no values are weighed
        int chunks;           ///< number of such groups
    };
    const chunking depths;
    /// The partial results of a task's split, and how splits are merged.
    struct merging {
        Halide::Func partial;     ///< (lane of element of chunk, row, split, query block, key head, batch): the partial
                                  ///< results of a task, a value for each core that shares it, in one piece of memory
        int place{};              ///< of this core's value
        Halide::Func top{"top"};  ///< (query in block, query block, head, batch): the maximum of all splits
        Halide::Func merged{"merged"};  ///< (lane, chunk, query in block, query block, head, batch)
        Halide::RDom splits;
    };
    merging merge;
    static inline const Halide::Var sp{"sp"}, dc{"dc"}, x{"x"};  ///< split, chunk, element of a task's partial results

    int split_size() const { return layout.size() * depths.width * depths.chunks; }

private:
    Halide::Expr blocks_in_use() const;
    void define_ranges();
    void define_state();
    static void define_splits(const std::vector<decode_state*>& sharing);
    void define_merge();
    /// Element i of a chunk of a row in a split.
    Halide::Expr of_split(const Halide::Expr& lane, const Halide::Expr& chunk, int i, const Halide::Expr& split,
                          const std::vector<Halide::Expr>& row) const;
    Halide::Expr merged_at(const Halide::Expr& lane, const Halide::Expr& chunk, int i,
                           const std::vector<Halide::Expr>& row) const;

    const kernel_frame& f_;
};

/// Schedules a kernel's stages for a CPU, and adds the passes that finish their loops.
void apply(const cpu_decode& cut, kernel_stages& all, const std::vector<pass_over_keys<decode_state>>& cores,
           Halide::Pipeline& attention);

}  // namespace attune::generators::inline cpu
