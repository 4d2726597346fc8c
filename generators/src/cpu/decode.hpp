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
/// keys, so that each key and value is read once. It takes a few keys of a block at a time: first their products with
/// each row, with the channels in lanes, then their values into each row's accumulators, which lie in the cache. The
/// splits of a key head are merged by maximum and sum when rows are written, always in the same order, so that bits
/// depend on the number of splits only: not on threads, batch or the slots' length.
///
/// Cores that read rows in common share their tasks: a task goes through its split for one of them after the other, and
/// what the first has read is in the caches.
class decode_state : public row_state {
public:
    /// To be followed by `share_tasks`.
    explicit decode_state(const kernel_frame& frame);

    /// Of all cores of a kernel: says what each task leaves, and how that is merged. For each core the first one whose
    /// tasks it shares.
    static void share_tasks(std::deque<decode_state>& cores, const std::vector<int>& tasks);

    Halide::Expr maximum_of(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr sum_of(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr summed_of(int weights, const std::vector<Halide::Expr>& row) const override;
    Halide::Expr accumulated_of(const std::vector<Halide::Expr>& row, const Halide::Expr& d) const override;

    Halide::Expr scale() const override { return scores_at.scale; }
    int block() const override { return 1; }
    int chunk() const override { return depths.vectors_a_chunk * depths.width; }
    bool depths_in_lanes() const override { return true; }

    // What there is to schedule. Rows are (row, key block, query block, key head, batch), pairs (key in block, row, key
    // block, query block, key head, batch).
    subblocks parts;
    score_tile scores_at;
    /// Which blocks of keys a split visits.
    struct split_ranges {
        Halide::Func span{"span"};    ///< (query block, key head, batch): the first visited block, and the one after
                                      ///< the last
        Halide::Func range{"range"};  ///< (split, query block, key head, batch): the same of a split
        Halide::Func visits_of_split{"visits_of_split"};  ///< (key block, split, query block, key head, batch)
    };
    split_ranges ranges;
    Halide::Func scores{"scores"};  ///< of pairs
    row_reductions reduced;
    block_weights weights;
    std::optional<decode_values> values;  ///< unless no values are weighed
    Halide::Func state{"state"};  ///< (lane, chunk, row, split, query block, key head, batch): as layout says, what
                                  ///< is no accumulator in every lane
    Halide::RDom blocks;
    state_layout layout;
    /// How the value depths of a row lie in its state.
    struct chunking {
        int width;            ///< value depths in a vector
        int vectors_a_chunk;  ///< that share a maximum and a sum, 0 where no values are weighed
        int chunks;           ///< how many such there are
    };
    const chunking depths;
    /// What a task leaves of its split, and how splits are merged.
    struct merging {
        Halide::Func partial;     ///< (lane of element of chunk, row, split, query block, key head, batch): what a task
                                  ///< leaves, a value for each core that shares it, in one piece of memory
        int place{};              ///< of this core's value
        Halide::Func top{"top"};  ///< (query in block, query block, head, batch): the maximum of all splits
        Halide::Func merged{"merged"};  ///< (lane, chunk, query in block, query block, head, batch)
        Halide::RDom splits;
    };
    merging merge;
    static inline const Halide::Var sp{"sp"}, dc{"dc"}, x{"x"};  ///< split, chunk, element of what a task leaves

    int split_size() const { return layout.size() * depths.width * depths.chunks; }

private:
    Halide::Expr blocks_in_use() const;
    void define_ranges();
    void define_state();
    static void define_splits(const std::vector<decode_state*>& sharing);
    void define_merge();
    /// Element i, of a chunk of a row, of a split.
    Halide::Expr of_split(const Halide::Expr& lane, const Halide::Expr& chunk, int i, const Halide::Expr& split,
                          const std::vector<Halide::Expr>& row) const;
    Halide::Expr merged_at(const Halide::Expr& lane, const Halide::Expr& chunk, int i,
                           const std::vector<Halide::Expr>& row) const;

    const kernel_frame& f_;
};

/// The pass over the keys for one attention core.
struct decode_core {
    decode_state& state;
    const kernel_frame& frame;
};

/// Makes loops of a CPU of a kernel's stages, and adds the passes that finish them.
void apply(const cpu_decode& cut, kernel_stages& all, const std::vector<decode_core>& cores,
           Halide::Pipeline& attention);

}  // namespace attune::generators::inline cpu
