#pragma once
#include "kernel/kernel_request.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// The decisions of one kernel as data: `plan_kernel` makes them once, and all later steps read them.
namespace attune::generators::inline plans {

// How the products of a tile are added up: one of these, each with numbers of its own.

/// Reals of 32 bits, a multiplication and an addition for each lane.
struct f32_products {
    bool of_codes{};  ///< one factor is a code of few bits, converted where it is multiplied
    bool operator==(const f32_products&) const = default;
};

/// Two neighbouring bf16 at a time, both products added to one f32 (vdpbf16ps).
struct bf16_pairs {
    bool operator==(const bf16_pairs&) const = default;
};

/// Tiles of bf16 in registers of their own (tdpbf16ps).
struct bf16_tiles {
    int rows{rows_of_tile}, elements{bf16_of_tile};
    bool operator==(const bf16_tiles&) const = default;
};

/// Codes of 8 bits, some products at a time added to one i32.
struct integer_dots {
    int at_a_time{};  ///< 4: of bytes; 2: of words of 16 bits
    int digits{};     ///< digits of 8 bits to which a weight is rounded, or one word; 0 for scores
    bool of_tiles{};  ///< in registers of their own (tdpbusd)
    bool operator==(const integer_dots&) const = default;
};

/// Fragments that the threads of a GPU's warp hold together, 16 x 8 x 16 products an instruction (mma.sync), of f32 16
/// x 8 x 8, of codes 16 x 8 x 32.
struct warp_fragments {
    element_type of{element_type::bf16};  ///< bf16; f16; f32, multiplied as TF32; or i8, codes of 8 bits
    bool of_warpgroup = false;            ///< 64 rows by all keys or value depths, by four warps; else 16 x 8, by one
    int products{1};                      ///< of TF32 for one of f32: 3 if each number is cut in two

    /// Channels or keys that an instruction adds up: those of 8 words of a row.
    int step() const { return 32 / static_cast<int>(bytes_of(of)); }
    bool operator==(const warp_fragments&) const = default;
};

using multiplication = std::variant<f32_products, bf16_pairs, bf16_tiles, integer_dots, warp_fragments>;

/// The owner of a number that is computed once and kept.
enum class owner : std::uint8_t { query, key, task };

/// A number of the graph that is computed once a block, or once a task, and not for each pair.
struct kept_node {
    int node{};
    owner of{};
};

/// Queries, keys or values that a formula makes a block at a time; numbers of a position that all channels share are
/// kept.
struct formed_rows {
    int formula{};  ///< node
    std::vector<kept_node> kept{};
    std::vector<int> placed{};  ///< loads whose place of each key's row is one number, which is kept
};

/// The scores of a block of queries with a block of keys.
struct score_plan {
    /// The axis in the lanes of a vector; on a GPU, the axis along neighbouring threads. In fragments of tensor cores a
    /// pair lies where a thread has it.
    enum class lanes : std::uint8_t { queries, keys, channels, fragments };
    lanes along{};
    multiplication how{f32_products{}};  ///< of q * t(k)
    int queries{}, keys{};               ///< of a tile whose sums are in registers; in decode `queries` are rows
    int keys_of_one_row{};               ///< in decode: of the tile if a task has one row; 0: `queries` rows even then
    int unroll{1};                       ///< steps of the sum over the channels that are written out
    std::vector<int> further{};  ///< nodes: other sums over products of a query's and a key's numbers, always of f32
    std::vector<kept_node> kept{};
    std::vector<formed_rows> formed{};
    std::vector<int> turned{};  ///< nodes: numbers of pairs that lie along the keys, and are transposed
    bool fetched{};             ///< rows of keys are asked for before they are read

    const formed_rows& rows_of(int formula) const;
    /// Whether rows are those of a load without a formula, so that they are read in place.
    bool reads_in_place(int formula) const;
};

/// The values that are checked for NaN and infinities, before a weight of 0 multiplies them.
enum class value_check : std::uint8_t {
    none,              ///< codes are finite
    behind_last_key,   ///< all others are finite by the caller's promise
    masked_subblocks,  ///< those of sub-blocks in which a pair is masked; if one is not finite, each pair is looked at
    each_pair,
    sums  ///< none: a task is made again if its sums are not finite
};

/// The sums of weights times values.
struct value_plan {
    multiplication how{f32_products{}};
    value_check check{};
    int vector{};               ///< value depths side by side: in lanes in decode, else 1
    int channels{};             ///< value depths whose sums are in registers
    int channels_of_one_row{};  ///< in decode of codes: the same if a task has one row
    int keys{};                 ///< whose values are added at a time
    int keys_of_one_row{};      ///< in decode: the same if a task has one row; 0: as many
    int chunk{};                ///< value depths that share a maximum and a sum
    bool of_whole_block{};      ///< sums over all keys of a block stay in registers: in decode, else always
    bool fetched{};             ///< rows of values are asked for before they are read
};

/// The numbers that the pass over the keys keeps of a row.
struct row_plan {
    int accumulators{};  ///< of a chunk
    bool maximum{}, sum{};
    std::vector<int> others{};  ///< nodes: further weights that are summed

    int beside_accumulators() const { return maximum + sum + static_cast<int>(others.size()); }
    int numbers() const { return accumulators + beside_accumulators(); }
};

/// The pass over the keys of one attention core.
struct key_pass {
    int core{};  ///< in plan::cores
    score_plan scores{};
    std::optional<value_plan> values{};  ///< unless nothing is weighed
    row_plan row{};
};

/// The blocks of pairs. Blocks without a visible pair are skipped.
struct block_grid {
    static constexpr int most_subblocks = 8;
    int queries{}, keys{};
    int subblocks{1};  ///< of the keys of a block: at an edge of what is visible the others are left out
    masking hides{};

    int keys_of_subblock() const { return keys / subblocks; }
};

// The kinds of kernel, by the loop that goes over the pairs: one of these. A further kind is a further alternative.

/// Each block of queries goes over the blocks of keys.
struct prefill_plan {
    block_grid grid{};
    std::vector<key_pass> cores{};  ///< cores that keep something of a row
    std::optional<gpu_prefill>
        again{};  ///< how tasks are cut that are made again, by threads that multiply by themselves
};

/// The rows of a key head share its keys; the splits of them are merged.
struct decode_plan {
    block_grid grid{};
    std::vector<key_pass> cores{};
    int splits{};                        ///< at most
    std::vector<int> tasks{};            ///< for each core: the first core whose tasks it shares
    std::optional<gpu_prefill> again{};  ///< as in prefill
};

/// The gradients' sweep over blocks of queries and keys.
struct sweep_plan {
    block_grid grid{};
    multiplication how{f32_products{}};
    int queries{}, keys{};           ///< of a tile of pairs whose numbers are in registers
    int sum_rows{}, sum_channels{};  ///< of a tile of sums
    std::vector<int> tiles{};        ///< nodes: the numbers of pairs that are summed
    int sums{}, flat_sums{};  ///< rows that are summed over the other side; those of one number each, side by side
    int width{};              ///< channels of such a row, in whole vectors
    int copied{}, placed{}, multiplied{}, by_pair{};  ///< terms of gradients, by their form
};

/// A pass of the gradients on a GPU: over the keys for the sums of queries, or over the queries for those of keys.
struct side_plan {
    bool of_queries{};
    std::vector<std::size_t> sums{};  ///< in gradient_plan::sums
    std::vector<int> tiles{};         ///< nodes: the numbers of pairs that are summed
    bool adds_heads{};                ///< the sums of keys are those of all query heads of a group
    int across{}, channels{};         ///< threads that share the channels of a sum, and the channels of each
};

/// The gradients on a GPU: each side of the pairs has a pass of its own over the blocks of the other one; sums of keys
/// that are those of one query head have a third.
struct side_passes_plan {
    block_grid grid{};
    int queries{}, keys{};  ///< of a tile of pairs whose numbers a thread has in registers
    std::vector<side_plan> sides{};
    int copied{}, placed{}, by_pair{};  ///< terms of gradients, by their form
};

/// A chunk of tokens of a recurrence: products of rows with each other and with the state, and products that add to the
/// state.
struct chunk_plan {
    block_grid grid{};                ///< no pairs are skipped
    int tokens{}, rows{}, vectors{};  ///< of a chunk; of a product in registers: its rows, and the vectors of a row
    bool solves{};                    ///< the rows that tokens write depend on each other
    bool by_channels{};               ///< decays differ along the channels
    /// Rows of tokens, and their name: those of the next chunk are fetched while those of this one are read.
    struct fetched_rows {
        int node{};
        std::string_view are{};
    };
    std::vector<fetched_rows> fetched{};
};

/// Outputs that need every pair, by their shape.
enum class pair_shape : std::uint8_t { pairs, head_means, columns };
struct pair_outputs {
    pair_shape shape{};
    std::vector<int> nodes{};  ///< outputs, in the graph's order
    score_plan scores{};
};

/// Which part of a kernel makes an output.
enum class maker : std::uint8_t { rows, pairs, head_means, columns, tokens, precomputed, sweep, chunk, state };
struct output_plan {
    int node{};
    maker by{};
    int place{};  ///< among all values that the parts make, one part after the other
};

/// A rewriting of the lowered statement.
struct pass_plan {
    std::string_view name{};  ///< of its class
    std::string on{};         ///< the loop or the functions that it is given
    std::string_view assumes{};
    bool of_module{};  ///< it is added for the target, behind all others
};

/// So many bytes under a name, for people.
struct buffer {
    std::string_view what{};
    std::size_t bytes{};
};

/// The bytes of a gradient's sums for each query of a head, key of a query head and key of a key head, with the queries
/// in `parts` parts. 0 in other kernels.
struct sum_memory {
    std::size_t of_query{}, of_key{}, of_key_head{};
    int parts{}, depths{};  ///< multiply-adds for each pair
};

/// The bytes of a kernel, in kinds that only a call's sizes multiply.
struct kernel_bytes {
    /// Upper bound of what one thread allocates during a call, apart from tables of conditions (a few bytes a tile) and
    /// from panels whose depth only the call knows: those of sums over products of a query's and a key's numbers. In
    /// decode it leaves out the bytes that grow with the number of stacked rows.
    std::size_t of_thread{};
    std::vector<buffer> buffers{};         ///< of_thread, by what it is for
    std::size_t of_row{}, of_split_row{};  ///< in decode: further bytes of each row; those that a split leaves of it
    sum_memory sums{};                     ///< of a gradient
};

/// A tensor that is computed before the first score.
struct precomputed_plan {
    int node{};
    bool in_bytes{};  ///< its elements are integers of eight bits
};

struct kernel_plan {
    bool on_gpu{};
    std::variant<prefill_plan, decode_plan, sweep_plan, chunk_plan, side_passes_plan> body{};
    std::vector<pair_outputs> pairs{};
    std::vector<int> before{},
        after{};  ///< nodes: tensors that are computed in full before the attention, and after it
    std::vector<precomputed_plan> precomputed{};
    std::vector<output_plan> outputs{};  ///< in the graph's order
    std::vector<int> saved{};            ///< places, as those of outputs: saved rows, then the saved output
    std::vector<pass_plan> passes{};     ///< in order
    kernel_bytes bytes{};

    const block_grid& grid() const;
    /// The places of the graph's outputs, and then those of the saved values.
    std::vector<int> places() const;
    /// The pass of the core at that place in plan::cores. Throws std::logic_error if that core keeps nothing of a row.
    const key_pass& pass_of(int core) const;
    std::vector<const key_pass*> passes_over_keys() const;
};

/// Throws std::runtime_error, a sentence, for a request that no kernel is made for.
kernel_plan plan_kernel(const kernel_request& request);

/// The most that one thread allocates for softmax(q * t(k)) * v.
std::size_t plain_scratch_bytes(const schedule& s, const depth_pair& depths);

/// The grid alone, for any schedule and target. A sub-block has whole tiles, and is large enough for a decision about
/// it to pay.
block_grid grid_of(const schedule& s, masking hides);

/// Whether weights are softmax's, relative to a maximum. True as well if nothing is weighed and only their sum is asked
/// for.
inline bool is_softmax(const plan& core) { return core.weights_by == statistic::softmax || core.log_sum; }

template <class How> bool made_by(const multiplication& how) { return std::holds_alternative<How>(how); }

/// Whether tiles in registers of their own are multiplied.
inline bool is_of_tiles(const multiplication& how) {
    const auto* dots = std::get_if<integer_dots>(&how);
    return made_by<bf16_tiles>(how) || (dots && dots->of_tiles);
}

/// Whether pairs of bf16 are multiplied, by tiles or by vectors.
inline bool is_of_bf16(const multiplication& how) { return made_by<bf16_pairs>(how) || made_by<bf16_tiles>(how); }

/// Whether keys or values are codes of few bits, multiplied as integers or after a conversion.
inline bool is_of_codes(const multiplication& how) {
    const auto* f32 = std::get_if<f32_products>(&how);
    return made_by<integer_dots>(how) || (f32 && f32->of_codes);
}

/// Whether scores or sums of values are made of integers.
inline bool multiplies_integers(const key_pass& pass) {
    return made_by<integer_dots>(pass.scores.how) || (pass.values && made_by<integer_dots>(pass.values->how));
}

/// How many products of integers are added up at a time; 0 for other products.
inline int integers_at_a_time(const multiplication& how) {
    const auto* dots = std::get_if<integer_dots>(&how);
    return dots ? dots->at_a_time : 0;
}

}  // namespace attune::generators::inline plans
