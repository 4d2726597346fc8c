#pragma once
#include "stages/kernel_stages.hpp"
#include "stages/score_tile.hpp"
#include "stages/softmax_state.hpp"

#include <vector>

namespace attune::generators::inline gpu {

/// The pass over the keys of a GPU where queries are few, and keys and values are what there is to read.
///
/// A block of threads has some rows of a key head (the queries of every query head that reads it, one below the other)
/// and a stretch of its keys, so that each key and value is read once for all of these rows. Eight neighbouring threads
/// share a key and read 8 of its channels side by side; what they sum for each row meets in shared memory. Value depths
/// lie in threads too, and a block of keys is shared out among as many as there are threads left, each with a running
/// state of its own in registers. What a block of threads leaves goes to memory, and a second kernel merges it by
/// maximum and sum, always in the same order: bits depend on the number of splits and on nothing else.
class gpu_decode_state : public row_state {
    kernel_frame& f_;
    const gpu_decode& cut_;
    const int chunk_;  ///< value depths of a thread, 0 where no values are weighed

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
    static constexpr int warp = 32;
    static constexpr int mergers = 8;         ///< threads that share the splits of an element
    static constexpr int merged_at_once = 8;  ///< splits that each of them asks for at a time

    // What there is to schedule. Rows are (row, key block, query block, key head, batch), pairs (key in block, row, key
    // block, query block, key head, batch).
    score_tile scores_at;
    const int rows, keys;       ///< of a task, of a block
    const int across;           ///< threads that go over a row's value depths
    const int down;             ///< threads beside the eight that share a key
    const int shares;           ///< of a block's keys, while values are weighed
    const Halide::Expr splits;  ///< of the keys
    Halide::Func seen{"seen"};  ///< (key block, query block, key head, batch): whether some row sees something
    Halide::Func span_of_thread{"span_of_thread"}, spans{"spans"};  ///< (thread, key head, batch): the first visible
                                                                    ///< block that it saw, and the one after the last
    Halide::Func span{"span"};    ///< (key head, batch): the first of all, and how many
    Halide::Func range{"range"};  ///< (split, key head, batch): its first block, and the one after it
    Halide::Func visits_of_split{"visits_of_split"};  ///< (key block, split, query block, key head, batch)
    Halide::Func scores{"scores"};                    ///< of pairs
    block_weights weights;
    std::vector<Halide::Func>
        lane_sums;        ///< (thread, row, ...): a few of a row's maxima or sums, before they become one
    Halide::Func values;  ///< (value depth, key in block, key block, key head, batch)
    Halide::Func accumulated{"accumulated"};  ///< (of a thread's depths, thread, row, share of the keys, key block,
                                              ///< query block, key head, batch)
    Halide::Func state{"state"};  ///< (thread, row, share of the keys, split, query block, key head, batch): as layout
                                  ///< says, what is no accumulator in every thread
    Halide::Func left{"left"}, left_of_rows{"left_of_rows"};  ///< the same: accumulators; other numbers
    Halide::Func partial{"partial"};  ///< (value depth and then the other numbers, row, split, query block, key head,
                                      ///< batch): what a task leaves of each row
    Halide::Func tops{"tops"};        ///< (thread, query in block, query block, head, batch): maxima of a few splits
    Halide::Func top{"top"};          ///< (query in block, query block, head, batch): the maximum of all
    Halide::Func factor{"factor"};    ///< (split, query in block, query block, head, batch)
    Halide::Func merging{"merging"}, merged{"merged"};  ///< (element, thread, query in block, query block, head, batch)
    state_layout layout;
    static inline const Halide::Var sp{"sp"}, l{"l"}, x{"x"}, j{"j"}, dt{"dt"},
        g{"g"};  ///< split, thread, element, of a thread's depths,
                 ///< thread along depths, share of the keys
    Halide::RDom rk, blocks, merged_splits, every;
    int split_size() const { return (chunk_ ? f_.value_depth() : 0) + layout.beside_accumulators(); }

private:
    void define_ranges();
    void define_weights();
    void define_state();
    void define_splits();
    void define_merge();
    Halide::Func reduced(const std::string& name, const Halide::Func& of_pairs, bool maximum);
    Halide::Expr old(int i) const;
    Halide::Expr of_split(const Halide::Expr& at, const Halide::Expr& split,
                          const std::vector<Halide::Expr>& row) const;
    Halide::Expr merged_at(const Halide::Expr& at, const std::vector<Halide::Expr>& row) const;
    Halide::Expr merged_number(int place, const std::vector<Halide::Expr>& row) const;
};

/// Makes loops of a GPU of a kernel's stages, and adds the passes that finish them.
void apply(const gpu_decode& cut, kernel_stages& all, gpu_decode_state* state, Halide::Pipeline& attention);

}  // namespace attune::generators::inline gpu
