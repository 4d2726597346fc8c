#pragma once
#include <attune/ir/graph_ir.hpp>
#include <attune/ir/shape_class.hpp>
#include "kernel/level.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace attune::generators {

/// How one kernel is cut into blocks, tiles and registers: data, so that it can be stored, printed and searched.
///
/// One task is a block of queries of one (batch, head). It visits blocks of keys; in each it makes a tile of scores
/// (query_block x key_block), exponentiates it, and adds its product with the values to a running state, a chunk of the
/// value depth at a time. Queries lie in vector lanes throughout.
///
/// In decode a task is the queries of a whole group of heads, at most query_block of each, with one of key_splits parts
/// of the keys. It sums the products of query_tile rows with key_tile keys in registers, channels in lanes, and adds
/// the values of value_tile keys to query_tile rows at a time; key_block is a multiple of lanes and of value_tile,
/// lanes one of key_tile, and chunk is 1.
///
/// On a GPU `lanes` is 1 and pairing 1: threads are what lanes are elsewhere. A block of threads has query_block
/// queries, each thread query_tile of them, with key_tile keys while scores are made and then with `chunk` value
/// depths; value_tile counts nothing. In decode a block of threads has query_tile rows of a group and one of key_splits
/// parts of the keys: eight threads share a key, channels side by side, and each takes key_tile keys of a block,
/// depth_unroll steps over its channels at a time; then a thread has `chunk` value depths and asks for the values of
/// value_tile keys at a time. There key_block is a multiple of 8 and of key_tile.
struct schedule {
    shape_class shapes{};  ///< which of the two ways of cutting work
    int lanes{};           ///< f32 in a vector
    int query_block{};     ///< queries a task; a multiple of query_tile
    int key_block{};       ///< keys a visit, the grain in which blocks are skipped; a multiple of key_tile
    int query_tile{};      ///< queries that go through a visit together; a multiple of lanes
    int depth_unroll{};    ///< steps of the sum over the depth written out; divides the depth
    int key_tile{};        ///< keys whose products with a query tile are summed in registers
    int value_tile{};      ///< value depths whose sums over the keys, for a query tile, are made in registers
    int chunk{};           ///< value depths that share one running maximum and sum; a multiple of value_tile
    int key_splits{};      ///< splits of the keys that tasks of one (batch, key head) share, at most; 1 in prefill
    int pairing{1};  ///< 1; or 2: bf16 elements are multiplied two neighbours at a time, as vdpbf16ps does, the weights
                     ///< rounded to bf16

    bool operator==(const schedule&) const = default;
};

/// Throws std::runtime_error for anything but "prefill" and "decode".
shape_class shape_class_from(std::string_view text);

/// How much of the scores a graph hides, as far as its formula shows.
enum class masking : std::uint8_t {
    none,
    some,
    window,  ///< all but some keys before the query: a constant number of them, at most 1024, or one that only the call
             ///< knows
};
masking masking_of(const graph_ir& graph);

/// What is used where nothing better was measured. Any depth >= 1.
schedule default_schedule(const level& isa, int depth, int value_depth, masking hides);
schedule decode_schedule(const level& isa, masking hides);

/// Throws std::runtime_error with the first limit of a field that `s` is beyond, whatever the depth.
void check_limits(const schedule& s);

/// Throws std::runtime_error with the first limit or rule above that `s` breaks for a depth of q and k.
void check(const schedule& s, int depth);
/// The same, and that it is for a GPU or a CPU as the level is.
void check(const schedule& s, const level& isa, int depth);

/// One flat JSON object, keys in the order above.
std::string to_json(const schedule& s);

/// Throws std::runtime_error for text that is not such an object: unknown, missing or mistyped fields.
schedule schedule_from_json(std::string_view text);

/// What one thread allocates for softmax(q * t(k)) * v at most; kernel_request.hpp knows about other graphs.
std::size_t scratch_bytes(const schedule& s, int depth, int value_depth);

}  // namespace attune::generators
