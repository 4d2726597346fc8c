#pragma once
#include "kernel/tensor_schedule.hpp"
#include "stages/score_tile.hpp"
#include "stages/softmax_state.hpp"
#include "stages/split_ranges.hpp"
#include "stages/subblocks.hpp"

#include <optional>
#include <vector>

namespace attune::generators::inline stages {

/// The pass over the keys by tensor cores (FlashAttention-2): scores and weights are fragments of products, and never
/// leave registers.
///
/// In decode queries are the stacked rows of a key head, `w` goes over all tiles of them, and the state belongs to a
/// split: it has one more axis, and other threads merge the results of its rows.
///
/// A fragment is a tile that the threads of a warp hold together. In a tile of 16 queries and 8 keys or value depths, a
/// thread has four numbers: register r of thread 4 gi + ti is row gi + 8 (r / 2), column 2 ti + r % 2. All of these are
/// axes, so that a pair has a place, and formulas and masks remain expressions over it. A thread has two rows (rh) of
/// each of a warp's tiles of queries (mt), and two columns of both rows in each tile of keys or value depths (nt).
///
/// Weights are relative to a reference, which is no less than `least_maximum`: lower scores count as masked. The
/// reference is the running maximum, or somewhat below it if rounded weights are added up.
///
/// Weights are rounded to the values' elements. If nothing else asks for their sum, the rounded weights are added up,
/// by a product with ones. A log-sum-exp adds up the weights before rounding.
///
/// A word is two elements of 16 bits, or one of f32, of which tensor cores read 19 bits (TF32): a step of 8 words then
/// has 8 channels or keys. f32 is rounded to that; or each number is cut in two such numbers, and three of their four
/// products are added up (3xTF32): the fourth is below 2^-20 of the product.
///
/// Where a formula makes codes of 8 bits of queries and keys, a word of theirs is four codes. Sums are integers, and
/// the factors of a query and a key multiply them.
class tensor_state : public row_state {
public:
    explicit tensor_state(const kernel_frame& frame);

    Halide::Expr maximum_of(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr sum_of(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr summed_of(int weights, const std::vector<Halide::Expr>& row) const override;
    Halide::Expr accumulated_of(const std::vector<Halide::Expr>& row, const Halide::Expr& d) const override;

    Halide::Expr is_marked(const std::vector<Halide::Expr>& row, const Halide::Expr& d) const override;

    /// In decode, the numbers of a row (in block, split, query block, head, batch): its sums, and behind them two
    /// numbers of each of the four threads that have the row, the maximum and the thread's part of the sum. If `marks`
    /// asks for it, a part is not finite if sums of the thread are not.
    Halide::Expr left_of_split(const std::vector<Halide::Expr>& row, const Halide::Expr& number, bool marks) const;

    Halide::Expr scale() const override { return scores_at.scale; }
    int block() const override { return f_.cut.query_block; }
    int chunk() const override { return accumulators; }
    bool depths_in_lanes() const override { return false; }

    int words_of_key() const { return f_.depth() * 8 / of_scores().step(); }
    int words_of_value() const { return f_.value_depth() * 8 / of_values().step(); }

    /// A power of two, so that the factor of a masked pair is exact.
    static constexpr float least_maximum = -0x1p96f;
    /// The reference stays, and no sum is rescaled, until a weight relative to it would be larger than this.
    static constexpr float largest_weight = 0x1p8f;
    static constexpr int looked_at_once = 32;  ///< in decode: blocks of keys that are decided on together, one a thread

    bool queries_in_memory() const {
        return generators::queries_in_memory(tensor_blocks_of(f_.request.schedule), f_.request);
    }

    // Functions and loops to schedule. Axes of fragments: (register or row half, tile of keys or depths, gi, ti, tile
    // of queries, warp, key block, query block, head, batch); of rows the same without tiles of keys; of queries and of
    // the state without key blocks.
    const int accumulators;    ///< accumulators of a row in a thread
    const bool of_warpgroups;  ///< warps of a group make products together, else each its own
    bool masks_apart{};        ///< blocks that are not known to be full are masked after their scores are made
    bool sums_by_products{};   ///< else a thread adds up its own columns
    score_tile scores_at;
    subblocks parts;
    std::optional<split_ranges> split;        ///< in decode
    Halide::Func query_words{"query_words"};  ///< (register, step of 8 words, gi, ti, tile, warp, query block, ...)
    Halide::Func query_reads{"query_reads"};  ///< the same, read at the products
    /// (word, key in block, key block, head, batch). Products of warpgroups read rows as they lie, for them (word in a
    /// piece of 16 bytes, piece, key in block, part of 64 elements, key block, head, batch): ptx/warpgroup.hpp
    Halide::Func key_rows{"key_rows"}, value_rows{"value_rows"};
    /// (of four, two tiles of keys, step of 8 words, gi, ti, key block, ...) and (of four, two tiles of depths, step of
    /// 16 keys, gi, ti, key block, ...); of f32 (of two, a tile of depths, step of 8 keys, gi, ti, key block, ...)
    Halide::Func key_words{"key_words"}, value_words{"value_words"};
    Halide::Func products{"products"}, scores{"scores"}, weights{"weights"};
    Halide::Func weighing{"weighing"};  ///< undefined if the weights themselves weigh
    Halide::Func packed{"packed"};      ///< (register, step of keys, gi, ti, tile, warp, key block, ...)
    Halide::Func of_thread{"of_thread"}, of_pair{"of_pair"}, seen{"seen"}, shrunk{"shrunk"}, highest{"highest"},
        keep{"keep"}, offset{"offset"};
    Halide::Func grown{"grown"};  ///< (gi, ti, warp, key block, ...): below 1 if sums of the thread are rescaled
    Halide::Func sums{"sums"}, added{"added"};
    Halide::Func before_added{"before_added"};  ///< for warpgroups, which make all sums at once; else undefined
    Halide::Func state{"state"};                ///< a tuple: accumulators, the sum, the maximum
    Halide::Func left{"left"};                  ///< the maximum, the sum
    /// (gi, ti, warp, query block, head, batch), in prefill: not 0 if a sum of the warp is not finite. Undefined if
    /// such sums need no second launch.
    Halide::Func spoilt;
    Halide::RDom channels, keys, summed_keys;  ///< (which of the products that make one, step)
    Halide::RDom rk, masked, rescaled, blocks;
    static inline const Halide::Var r{"r"}, rh{"rh"}, nt{"nt"}, gi{"gi"}, ti{"ti"}, mt{"mt"}, w{"w"}, ks{"ks"}, i{"i"},
        j{"j"}, word{"word"}, piece{"piece"}, part{"part"};

private:
    void define_rows();
    void define_matrices();
    void define_scores();
    void define_weights();
    void define_sums();
    void define_state();
    void define_marks();

    int sum_at() const { return accumulators; }
    int maximum_at() const { return accumulators + 1; }
    Halide::Expr query_of(const Halide::Expr& half) const { return w * (16 * tiles()) + mt * 16 + half * 8 + gi; }
    Halide::Expr key_of(const Halide::Expr& tile, const Halide::Expr& half) const { return tile * 8 + 2 * ti + half; }
    Halide::Expr word_of(int tensor, bool of_query, const Halide::Expr& position, const Halide::Expr& at) const;
    Halide::Expr before(int element, const Halide::Expr& half) const;
    Halide::Expr before(const Halide::Expr& element, const Halide::Expr& half) const;
    std::vector<Halide::Expr> row(const Halide::Expr& half) const;
    Halide::Expr block_of_state();
    std::vector<Halide::Expr> fragment(const Halide::Expr& reg, const Halide::Expr& tile) const;
    std::vector<Halide::Expr> of_queries(const std::vector<Halide::Expr>& row, const Halide::Expr& lane) const;
    static void multiply(const warp_fragments& how, Halide::Func& sum, const std::vector<Halide::Expr>& at,
                         const std::vector<Halide::Expr>& a, const std::vector<Halide::Expr>& b);
    Halide::Expr of_warpgroup(const std::string& instruction, int columns, int steps, std::vector<Halide::Expr> a,
                              const Halide::Func& rows, const std::vector<Halide::Expr>& sums) const;
    std::string by_element(const std::string& instruction) const;
    static Halide::Expr part_of(const warp_fragments& how, const Halide::Expr& word, const Halide::Expr& lower);
    Halide::Expr word_of_codes(bool of_query, const Halide::Expr& position, const Halide::Expr& at) const;
    Halide::Expr product_at(const Halide::Expr& query, const Halide::Expr& key) const;
    const warp_fragments& of_scores() const { return std::get<warp_fragments>(f_.keys().scores.how); }
    const warp_fragments& of_values() const { return std::get<warp_fragments>(f_.keys().values->how); }
    int tiles() const { return tensor_blocks_of(f_.request.schedule).tiles; }
    bool is_of_f32() const { return of_values().of == element_type::f32; }
    bool is_of_codes() const { return of_scores().of == element_type::i8; }

    const kernel_frame& f_;
    struct {
        score_tile::scaled_rows of_query, of_key;
    } codes_;  ///< undefined if words are elements
};

}  // namespace attune::generators::inline stages
