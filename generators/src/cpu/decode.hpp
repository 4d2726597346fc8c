#pragma once
#include "stages/kernel_stages.hpp"
#include "stages/masked_values.hpp"
#include "stages/score_tile.hpp"
#include "stages/softmax_state.hpp"
#include "stages/subblocks.hpp"

#include <deque>
#include <optional>
#include <utility>
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
    int chunk() const override { return vectors_a_chunk * width; }
    bool depths_in_lanes() const override { return true; }

    // What there is to schedule. Rows are (row, key block, query block, key head, batch), pairs (key in block, row, key
    // block, query block, key head, batch).
    subblocks parts;
    score_tile scores_at;
    Halide::Func span{"span"};  ///< (query block, key head, batch): the first visited block, and the one after the last
    Halide::Func range{"range"};                      ///< (split, query block, key head, batch): the same of a split
    Halide::Func visits_of_split{"visits_of_split"};  ///< (key block, split, query block, key head, batch)
    Halide::Func scores{"scores"};                    ///< of pairs
    block_weights weights;
    std::vector<std::pair<Halide::Func, Halide::RDom>>
        lane_sums;  ///< (lane, row, ...): a vector of a row's maxima or sums, before they become one; over the vectors
    Halide::Func values_again{"values_again"};  ///< the same once more: where each pair is looked at
    bool values_in_order{};                     ///< of codes: a channel's position decides nothing
    int pieces_of_values = 1;                   ///< of a row, in each of which it decides nothing
    Halide::Func values;                        ///< (value depth, key in block, key block, key head, batch)
    Halide::Func added{"added"};                ///< (value depth, row, ...): where no pair is looked at
    Halide::Func largest;                       ///< (row, ...): the bits of the largest weight
    Halide::Func without_step{"without_step"};  ///< (key block, ...): not 0 where weights are not rounded
    Halide::Func digits{"digits"};              ///< (key in block, digit, row, ...)
    Halide::Func interleaved{"interleaved"};    ///< (key of few, value depth, few keys of block, ...)
    Halide::Func digit_sums{"digit_sums"};      ///< (value depth, digit, row, ...)
    Halide::Func accumulated{"accumulated"};    ///< (value depth, row, key block, query block, key head, batch)
    Halide::Func sums;            ///< the same over all keys of a block, a tile of it in registers: where values are
                                  ///< channels of the keys' rows, which then are in the caches. Undefined elsewhere
    Halide::Func state{"state"};  ///< (lane, chunk, row, split, query block, key head, batch): as layout says, what
                                  ///< is no accumulator in every lane
    Halide::Func partial;         ///< (lane of element of chunk, row, split, query block, key head, batch): what a task
                                  ///< leaves, a value for each core that shares it, in one piece of memory
    int place{};                  ///< of this core's value
    Halide::Func top{"top"};      ///< (query in block, query block, head, batch): the maximum of all splits
    Halide::Func merged{"merged"};  ///< (lane, chunk, query in block, query block, head, batch)
    state_layout layout;
    const int width;                                 ///< value depths in a vector
    const int vectors_a_chunk;                       ///< that share a maximum and a sum, 0 where no values are weighed
    const int chunks;                                ///< how many such there are
    Halide::Var sp{"sp"}, l{"l"}, dc{"dc"}, x{"x"};  ///< split, lane, chunk, element of what a task leaves
    Halide::Var dg{"dg"}, group{"group"};
    Halide::RDom few;            ///< keys whose products are added up at a time, and which of a block
    Halide::RDom rk, looked_at;  ///< keys of a block whose values are added: all, or one pair at a time
    Halide::RDom blocks, splits;
    std::optional<masked_values> of_masked;  ///< unless all values are finite

    /// How weights and values are multiplied, of which there are some.
    const value_plan& planned() const { return *f_.keys().values; }
    /// Values are codes, converted where they are multiplied, or multiplied as they are.
    bool values_are_narrow() const { return is_of_codes(planned().how); }
    /// Products of weights and codes that are added up at a time; 0: they are of f32.
    int integers() const { return integers_at_a_time(planned().how); }
    /// Some blocks add values one pair at a time.
    bool looks_at_pairs() const { return planned().check != value_check::none || integers() > 0; }
    int split_size() const { return layout.size() * width * chunks; }

private:
    Halide::Expr blocks_in_use() const;
    void define_ranges();
    void define_weights();
    void add_looked_at(const Halide::Func& weighing);
    void add_codes(const score_tile::scaled_rows& narrow);
    Halide::Expr sum_digits(const Halide::Func& codes, Halide::Expr& sum);
    void define_state();
    static void define_splits(const std::vector<decode_state*>& sharing);
    void define_merge();
    Halide::Func reduced(const std::string& name, const Halide::Func& of_pairs, bool maximum);
    /// Element i, of a chunk of a row, of a split.
    Halide::Expr of_split(const Halide::Expr& lane, const Halide::Expr& chunk, int i, const Halide::Expr& split,
                          const std::vector<Halide::Expr>& row) const;
    Halide::Expr merged_at(const Halide::Expr& lane, const Halide::Expr& chunk, int i,
                           const std::vector<Halide::Expr>& row) const;

    const kernel_frame& f_;
    const cpu_decode& cut_;
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
