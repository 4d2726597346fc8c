#pragma once
#include "stages/masked_values.hpp"
#include "stages/score_tile.hpp"
#include "stages/softmax_state.hpp"

#include <optional>
#include <vector>

namespace attune::generators::inline stages {

/// How the value depths of a row are cut into chunks, each with a maximum and a sum of its own.
struct depth_chunks {
    explicit depth_chunks(const kernel_frame& f);
    /// The value depth of an element of the chunks, one chunk after the other.
    Halide::Expr depth_of(const Halide::Expr& element) const;

    int size;  ///< value depths that share a state; 0 if no values are weighed
    int count;
    int together;  ///< depths of a chunk that are neighbours. All; on a GPU as many as a load fetches at once:
                   ///< neighbouring threads have neighbouring chunks, and then read neighbouring words of a row
};

/// Weights times the values of a block of keys, in prefill: queries lie in lanes. On a CPU a block is added in one of
/// two ways: all of it, or, if a masked value is not finite, one pair at a time. Pairs are (query in block, key in
/// block, key block, query block, head, batch).
class prefill_values {
public:
    /// With tiles of bf16, the sum of a row's weights becomes a sum of words.
    prefill_values(const kernel_frame& frame, score_tile& scores_at, const subblocks& parts, block_weights& weights);

    /// How weights and values are multiplied.
    const value_plan& planned() const { return *f_.keys().values; }
    /// Whether values are added two keys at a time.
    bool pairs_of_bf16() const { return is_of_bf16(planned().how); }
    /// Whether weights and values are codes, whose products are added up a word of keys at a time: four of bytes, or
    /// two of 16 bits.
    bool of_codes() const { return made_by<integer_dots>(planned().how); }
    int keys_of_word() const { return integers_at_a_time(planned().how); }
    /// Whether tiles multiply: values are then words that lie with their keys side by side.
    bool in_tiles() const { return is_of_tiles(planned().how); }
    /// Whether tiles multiply pairs of bf16: weights and values are then words of two keys.
    bool tiled() const { return made_by<bf16_tiles>(planned().how); }

    // Functions and loops to schedule.
    Halide::Func values;  ///< (value depth, key in block, key block, head, batch); undefined for pairs of bf16
    /// (of two, query in block, half the key in block, key block, ...) and (of two, value depth, half the key in block,
    /// key block, head, batch). With tiles, words of two keys: the same without the first axis, and values with the
    /// keys first, turned from value_rows (value depth, half the key in block, key block, head, batch). Of codes, words
    /// of four or two keys: (query in block, the word of the key in block, ...) and (value depth, the word, ...).
    Halide::Func weight_pairs{"weight_pairs"}, value_pairs{"value_pairs"}, value_rows{"value_rows"};
    /// (query in block, value depth, key block, query block, head, batch): the sums of a tile, in registers; those of a
    /// block whose masked values matter; the sums of a chunk. If one Func had both loops, LLVM would keep one of the
    /// tile's sums in memory (AVX2), and the loop would take twice as long.
    Halide::Func accumulated{"accumulated"}, guarded{"guarded"}, weighted{"weighted"};
    Halide::RDom added, looked_at;  ///< keys of a block whose values are added: all, or one pair at a time
    Halide::RDom words;             ///< of two, half the keys of a block: the terms of sums of weights, with tiles
    std::optional<masked_values> of_masked;
    /// What makes codes of weights.
    struct coded_weights {
        Halide::Func largest{"largest"};  ///< (query in block, key block, ...): the largest weight times scale of a row
        Halide::Func without_step{"without_step"};  ///< (key block, head, batch): not 0 if weights are not rounded
        Halide::RDom each_key;                      ///< of a block: both go over them
        int pieces = 1;                             ///< of a row of codes, each with one formula for all its channels
    };
    coded_weights coded;

private:
    void define_words(block_weights& weights);
    void define_values(score_tile& scores_at, const subblocks& parts, const Halide::Func& weighing);
    void define_codes(score_tile& scores_at, const block_weights& weights);
    void define_pairs(const score_tile& scores_at, const subblocks& parts, const Halide::Func& weights);

    const kernel_frame& f_;
    const std::vector<Halide::Var> element_{f_.qi, f_.d, f_.kb, f_.qt, f_.h, f_.b};
};

}  // namespace attune::generators::inline stages
