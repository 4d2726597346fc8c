#pragma once
#include "stages/masked_values.hpp"
#include "stages/score_tile.hpp"
#include "stages/softmax_state.hpp"

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attune::generators::inline cpu {

/// A row's maximum or sum over the keys of a block: first a vector of partial results, then one number.
class row_reductions {
public:
    explicit row_reductions(const kernel_frame& frame);
    /// `beside`: a further axis of the pairs, and of the rows.
    Halide::Func operator()(const std::string& name, const Halide::Func& of_pairs, bool maximum,
                            const std::vector<Halide::Var>& beside = {});

    /// (lane, row, ...): the vectors of partial results, and the loop over a row's vectors.
    std::vector<std::pair<Halide::Func, Halide::RDom>> in_lanes;
    static inline const Halide::Var l{"l"};  ///< lane

private:
    const kernel_frame& f_;
    const int keys_, vector_;
};

/// Weights times the values of a block of keys, in decode: value depths lie in lanes. Values are added in one of three
/// ways, as the plan says: to sums in the cache, a few keys at a time; to sums in registers, over all keys of a block;
/// or as integers, if weights and values are codes.
///
/// Rows are (row, key block, query block, key head, batch), pairs (key in block, row, ...).
class decode_values {
public:
    /// Adds `scaled` to the weights of the block, if all channels of a value share a factor.
    decode_values(const kernel_frame& frame, score_tile& scores_at, const subblocks& parts, block_weights& weights,
                  row_reductions& reduced);

    /// How weights and values are multiplied.
    const value_plan& planned() const { return *f_.keys().values; }
    /// Values are codes: converted when they are multiplied, or multiplied as integers.
    bool is_of_codes() const { return plans::is_of_codes(planned().how); }
    /// Products of weights and codes that are added up at a time; 0: products of f32.
    int integers() const { return integers_at_a_time(planned().how); }
    int digits_of_weights() const { return std::get<integer_dots>(planned().how).digits; }
    /// Some blocks add values one pair at a time.
    bool looks_at_pairs() const { return planned().check != value_check::none || integers() > 0; }

    // Functions and loops to schedule.
    Halide::Func accumulated{"accumulated"};    ///< (value depth, row, ...): the sums of a block
    Halide::Func sums;                          ///< the same, a tile of it in registers; undefined if no tile is
    Halide::Func values;                        ///< (value depth, key in block, key block, key head, batch)
    Halide::Func values_again{"values_again"};  ///< the same once more, for blocks that check each pair
    bool in_order = true;                       ///< every channel has the same formula, whatever its position
    int pieces = 1;                             ///< pieces of a row, each with one formula for all its channels
    Halide::RDom rk, looked_at;                 ///< keys of a block whose values are added: all, or one pair at a time
    std::optional<masked_values> of_masked;     ///< unless all values are finite

    // Loops that the schedule splits off: over a few keys, over those where a task has one row, and over tiles of
    // channels.
    static inline const Halide::RVar ro{"ro"}, r1{"r1"};
    static inline const Halide::Var dt{"dt"};

    /// Weights as digits, and their products with codes.
    struct integer_sum {
        Halide::Func largest;                       ///< (row, ...): the bits of the largest weight
        Halide::Func without_step{"without_step"};  ///< (key block, ...): not 0 if weights are not rounded
        Halide::Func digits{"digits"};              ///< (key in block, digit, row, ...)
        Halide::Func interleaved{"interleaved"};    ///< (key of few, value depth, few keys of block, ...)
        Halide::Func digit_sums{"digit_sums"};      ///< (value depth, digit, row, ...)
        Halide::Func scales, scaled;  ///< of blocks of value depths that have a scale each: (key in block, block, ...),
                                      ///< and the weights times these, pairs; undefined if values have no blocks
        int block{};                  ///< value depths of such a block
        Halide::RDom few;             ///< keys whose products are added up at a time, and such groups of a block
        static inline const Halide::Var digit{"dg"}, group{"group"}, of_block{"of_block"};
        /// The axis of blocks; none if there are none. And the place along it of a value depth.
        std::vector<Halide::Var> beside() const {
            return block > 0 ? std::vector{of_block} : std::vector<Halide::Var>{};
        }
        std::vector<Halide::Expr> at(const Halide::Expr& channel) const {
            return block > 0 ? std::vector{channel / block} : std::vector<Halide::Expr>{};
        }
    };
    integer_sum of_digits;

private:
    void add_reals(const block_weights& weights);
    void add_codes(const score_tile& scores_at, block_weights& weights, row_reductions& reduced,
                   const score_tile::scaled_rows& narrow);
    void add_in_registers(const Halide::Func& weighing);
    void add_looked_at(const Halide::Func& weighing);
    void define_digits(const score_tile& scores_at, const Halide::Func& weights, row_reductions& reduced,
                       const score_tile::scaled_rows& narrow);
    Halide::Expr value_of_digits() const;

    const kernel_frame& f_;
    const std::vector<Halide::Var> element_{f_.d, f_.qi, f_.kb, f_.qt, f_.h, f_.b};
};

/// `in_block` computes a function at a block of keys; the task holds its storage.
void schedule_values(const cpu_decode& cut, decode_values& its, const kernel_frame& f,
                     const std::function<Halide::Func(Halide::Func)>& in_block);

}  // namespace attune::generators::inline cpu
