#pragma once
#include <attune/ir/graph_ir.hpp>
#include <attune/ir/shape_class.hpp>
#include "kernel/level.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace attune::generators::inline kernel {

/// How one kernel is cut into blocks, tiles and registers: data, so that it can be stored, printed and searched. There
/// are nine ways to cut, each with fields of its own.

/// One task is a block of queries of one (batch, head). It visits blocks of keys; in each it makes a tile of scores
/// (query_tile x key_block), exponentiates it, and adds its product with the values to a running state, a chunk of the
/// value depth at a time. Queries lie in vector lanes throughout.
struct cpu_prefill {
    static constexpr shape_class shapes = shape_class::prefill;
    int lanes{};         ///< f32 in a vector
    int query_block{};   ///< queries a task; a multiple of query_tile
    int key_block{};     ///< keys a visit, the grain in which blocks are skipped; a multiple of key_tile
    int query_tile{};    ///< queries that go through a visit together; a multiple of lanes
    int depth_unroll{};  ///< steps of the sum over the depth written out; divides the depth
    int key_tile{};      ///< keys whose products with a query tile are summed in registers
    int value_tile{};    ///< value depths whose sums over the keys, for a query tile, are made in registers
    int chunk{};         ///< value depths that share one running maximum and sum; a multiple of value_tile
    int pairing{1};  ///< 1; or 2: bf16 elements are multiplied two neighbours at a time (vdpbf16ps), weights rounded to
                     ///< bf16; or bf16_of_tile: the same by tiles (tdpbf16ps); or bytes_of_word: codes of bytes are
                     ///< multiplied as integers, four bytes or two words of 16 bits at a time, where the formula
                     ///< allows it; or bytes_of_tile: the same by tiles (tdpbusd)

    bool operator==(const cpu_prefill&) const = default;
};

/// A task is the queries of a whole group of heads, stacked as rows, with one of the splits of the keys. It sums the
/// products of query_tile rows with key_tile keys in registers, channels in lanes, and adds the values of value_tile
/// keys to query_tile rows at a time.
struct cpu_decode {
    static constexpr shape_class shapes = shape_class::decode;
    int lanes{};         ///< f32 in a vector
    int query_block{};   ///< queries of each head, at most
    int key_block{};     ///< keys a visit; a multiple of lanes, of keys_of_step and of value_tile
    int query_tile{};    ///< rows that go through a few keys together
    int depth_unroll{};  ///< steps over the channels written out
    int key_tile{};      ///< keys whose products with a query tile are summed in registers; divides keys_of_step
    int value_tile{};    ///< keys whose values are added to a query tile at a time
    int key_splits{};    ///< splits of the keys that tasks of one (batch, key head) share, at most

    /// Keys whose scores one step of the loop over a block's keys makes: the sums of a vector of keys, each over its
    /// lanes, are one vector of scores.
    int keys_of_step() const { return lanes; }

    bool operator==(const cpu_decode&) const = default;
};

/// A gradient, whatever the shapes. A task is a part of the queries of one key head. It visits blocks of pairs, as many
/// queries as keys; in each it makes tiles of the numbers that are summed (query_tile x key_tile), queries in lanes,
/// and adds their products with rows of the other side to sums, channels in lanes.
struct cpu_gradient {
    static constexpr shape_class shapes = shape_class::prefill;
    int lanes{};         ///< f32 in a vector
    int block{};         ///< queries and keys a visit, the grain in which blocks are skipped; a multiple of both tiles
    int query_tile{};    ///< queries whose products with key_tile keys are summed in registers; a multiple of lanes
    int key_tile{};      ///< keys of such a tile
    int depth_unroll{};  ///< steps of the sum over the depth written out; divides the depth
    int sum_rows{};      ///< rows of sums that are made in registers together; divides block
    int sum_channels{};  ///< channels of each; a multiple of lanes that divides width_of_sums
    int pairing{1};      ///< 1; or 2: all products are of bf16, two neighbours at a time, as cpu_prefill has it

    bool operator==(const cpu_gradient&) const = default;
};

/// A block of threads has a block of queries of one (batch, head), each thread query_tile of them, with key_tile keys
/// while scores are made and then with a chunk of the value depths.
struct gpu_prefill {
    static constexpr shape_class shapes = shape_class::prefill;
    int query_block{};   ///< queries of a block of threads; a multiple of query_tile
    int key_block{};     ///< keys a visit, the grain in which blocks are skipped; a multiple of key_tile
    int query_tile{};    ///< queries of a thread
    int depth_unroll{};  ///< steps of the sum over the depth written out; divides the depth
    int key_tile{};      ///< keys of a thread
    int chunk{};         ///< value depths of a thread

    bool operator==(const gpu_prefill&) const = default;
};

/// Prefill by tensor cores: a warp has a multiple of 16 queries. Their products with 8 keys, and then with 8 value
/// depths, are fragments: four numbers of each thread. Scores and weights never leave registers.
struct gpu_tensor_prefill {
    static constexpr shape_class shapes = shape_class::prefill;
    int warps{};      ///< of a block of threads
    int tiles{};      ///< tiles of 16 queries that a warp has
    int key_block{};  ///< keys a visit, the grain in which blocks are skipped; a multiple of 16

    static constexpr int rows_of_tile = 16, keys_of_tile = 8, channels_of_step = 16;
    static constexpr int warps_of_group = 4;  ///< warps that make a product together, if a target has warpgroups
    int query_block() const { return rows_of_tile * tiles * warps; }
    bool operator==(const gpu_tensor_prefill&) const = default;
};

/// A block of threads has a few rows of a group of heads and one of the splits of the keys. Eight threads share a key,
/// channels side by side; then a thread has a chunk of the value depths of the same rows.
struct gpu_decode {
    static constexpr shape_class shapes = shape_class::decode;
    int query_block{};   ///< queries of each head, at most
    int key_block{};     ///< keys a visit; a multiple of 8 and of key_tile
    int query_tile{};    ///< rows of a block of threads
    int depth_unroll{};  ///< steps over a thread's channels at a time
    int key_tile{};      ///< keys of a visit that a thread has
    int value_tile{};    ///< keys whose values a thread asks for at a time
    int chunk{};         ///< value depths of a thread
    int key_splits{};    ///< splits of the keys, at most

    bool operator==(const gpu_decode&) const = default;
};

/// A gradient on a GPU, whatever the shapes. A block of threads has a block of queries of one head, or of keys of one
/// key head, and visits blocks of the other side. In each visit a thread makes the numbers of query_tile x key_tile
/// pairs in registers, and then adds their products with rows of the other side to its sums, which never leave its
/// registers.
struct gpu_gradient {
    static constexpr shape_class shapes = shape_class::prefill;
    int query_block{};  ///< queries of a block of pairs, the grain in which pairs are skipped; a multiple of query_tile
    int key_block{};    ///< keys of it; a multiple of key_tile
    int query_tile{};   ///< queries of a thread
    int depth_unroll{};  ///< steps of the sum over the depth written out; divides the depth
    int key_tile{};      ///< keys of a thread

    bool operator==(const gpu_gradient&) const = default;
};

/// Decode by tensor cores: a warp has 16 rows of a group of heads. Their products with 8 keys and with 8 value depths
/// are fragments, as in prefill. Few of the rows may be in use.
struct gpu_tensor_decode {
    static constexpr shape_class shapes = shape_class::decode;
    int query_block{};  ///< queries of each head, at most
    int warps{};        ///< of a block of threads, which share keys; each has rows of its own
    int key_block{};    ///< keys a visit; a multiple of 16
    int key_splits{};   ///< splits of the keys, at most

    static constexpr int numbers_beside_sums = 8;  ///< that a split leaves of a row: two of each of its threads

    /// The work of a block of threads on one split, as prefill of as many rows.
    gpu_tensor_prefill of_split() const { return {.warps = warps, .tiles = 1, .key_block = key_block}; }
    bool operator==(const gpu_tensor_decode&) const = default;
};

/// A recurrence. A call of the kernel takes a chunk of tokens of one state: products of the chunk's rows with each
/// other and with the state, a triangular solve, products that add to the state. The runtime calls it for one chunk
/// after the other.
struct cpu_recurrence {
    static constexpr shape_class shapes = shape_class::prefill;
    int lanes{};    ///< f32 in a vector, value channels or tokens
    int block{};    ///< tokens of a chunk
    int rows{};     ///< rows of a product whose sums are made in registers together
    int vectors{};  ///< vectors of each such row

    bool operator==(const cpu_recurrence&) const = default;
};

using schedule = std::variant<cpu_prefill, cpu_decode, cpu_gradient, cpu_recurrence, gpu_prefill, gpu_decode,
                              gpu_tensor_prefill, gpu_tensor_decode, gpu_gradient>;

/// Queries and keys of the blocks that a kernel visits or skips.
struct block_sizes {
    int query_block{}, key_block{};
};
block_sizes blocks_of(const schedule& s);
/// Those whose products are summed together: by a warp where it uses tensor cores, else by a thread. Of a recurrence,
/// which has no pairs, the rows and columns of a product that are summed together.
block_sizes tile_of(const schedule& s);

shape_class shapes_of(const schedule& s);
int lanes_of(const schedule& s);  ///< of a GPU: 1
/// A tile of AMX has so many rows, and so many elements of bf16 in a row: the pairing of schedules that multiply by
/// tiles.
inline constexpr int bf16_of_tile = 32, rows_of_tile = 16;
/// Bytes whose products are added up at a time: the pairing of schedules of prefill that multiply integers. Where a
/// word of 32 bits has two numbers of 16, it is that of bytes, too: scores and values each have what their range
/// allows.
inline constexpr int bytes_of_word = 4, bytes_of_tile = 64;
/// Whether the products of a schedule are made of tiles.
bool is_tiled(const schedule& s);
/// Whether some products of a schedule are of integers.
bool multiplies_codes(const schedule& s);
int pairing_of(const schedule& s);  ///< 1 of all but cpu_prefill and cpu_gradient
int splits_of(const schedule& s);   ///< of the keys, at most; in prefill 1
inline bool uses_tensor_cores(const schedule& s) {
    return std::holds_alternative<gpu_tensor_prefill>(s) || std::holds_alternative<gpu_tensor_decode>(s);
}
inline bool is_for_gpu(const schedule& s) {
    return std::holds_alternative<gpu_prefill>(s) || std::holds_alternative<gpu_decode>(s) ||
           std::holds_alternative<gpu_gradient>(s) || uses_tensor_cores(s);
}
inline bool decodes(const schedule& s) { return shapes_of(s) == shape_class::decode; }
inline bool is_for_gradient(const schedule& s) {
    return std::holds_alternative<cpu_gradient>(s) || std::holds_alternative<gpu_gradient>(s);
}
inline bool is_for_recurrence(const schedule& s) { return std::holds_alternative<cpu_recurrence>(s); }
/// The purpose of a schedule, as in its JSON: "prefill", "decode", "gradient" or "recurrence".
std::string_view purpose_of(const schedule& s);
/// The purpose that a text names. Throws std::runtime_error for anything else.
std::string_view purpose_from(std::string_view text);

/// Throws std::runtime_error for anything but "prefill" and "decode".
shape_class shape_class_from(std::string_view text);

/// Depths of q and k, and of v.
struct depth_pair {
    int depth{}, value_depth{};
};

/// The channels of a row of a gradient's sums: whole vectors of the wider of both depths.
int width_of_sums(int lanes, const depth_pair& depths);

/// Throws std::runtime_error with the first limit or rule above that `s` breaks for these depths.
void check(const schedule& s, const depth_pair& depths);

/// One flat JSON object: "shapes", its purpose, and the fields of the type in the order above.
std::string to_json(const schedule& s);

/// The schedule in a text, whose type follows from the target, a GPU or a CPU, and from the text's purpose. Throws
/// std::runtime_error for text that is not such an object, and for numbers beyond their limits. Up to version 0.1 each
/// object had the fields of all four types for prefill and decode. Fields of the other three types must have their
/// neutral values, and are dropped.
schedule schedule_from_json(std::string_view text, const level& target);

}  // namespace attune::generators::inline kernel
