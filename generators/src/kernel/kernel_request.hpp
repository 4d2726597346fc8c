#pragma once
#include "analysis/graph_facts.hpp"
#include "kernel/schedule.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace attune::generators::inline kernel {

/// The element types that replace the graph's `any` in one kernel.
struct element_types {
    element_type query{}, key{}, value{}, output{};
    bool operator==(const element_types&) const = default;
};

/// "bf16" for all four, or "q:f32,k:bf16,v:bf16" with `out:` optional (then q's). Throws std::runtime_error for
/// anything else.
element_types element_types_from(std::string_view text);

/// The element type of an input that the graph leaves open. q, k and v have theirs by name. Other inputs are the
/// forward outputs and cotangents that a gradient reads; they have the output's.
element_type element_of(const input_declaration& input, const element_types& types);

/// The types as a part of a symbol: "bf16", "q_f32_k_bf16_v_bf16_out_f32".
std::string symbol_part(const element_types& types);

/// "64" or "64x32". Throws std::runtime_error for anything else.
depth_pair depth_pair_from(std::string_view text);

/// kernel_request::tf32_products of "f32", "tf32" or "3xtf32". Throws std::runtime_error for anything else.
int tf32_products_from(std::string_view text);

/// One kernel to be made from a graph, for element types, depths and a target, under a schedule for that target.
struct kernel_request {
    std::shared_ptr<const graph_facts> facts;
    element_types types{element_type::f32, element_type::f32, element_type::f32, element_type::f32};
    depth_pair depths;
    const level* target{};
    generators::schedule schedule;
    /// The caller's promise: no element of an input that a call reads below kv_lengths is NaN or infinite, and no score
    /// is NaN. Only values beyond kv_lengths are checked, and values that a formula makes. False for gradients.
    bool finite = false;
    /// Products of TF32, by tensor cores, that make one of f32: 1, or 3 (3xTF32). 0: f32 is multiplied as f32.
    int tf32_products = 0;

    const graph_ir& graph() const { return facts->graph; }
    const plan& core() const { return facts->core; }
    bool on_gpu() const { return target->is_gpu; }
    block_sizes blocks() const { return blocks_of(schedule); }
};

/// Throws std::runtime_error with the first limit or rule that the request's schedule breaks.
void check(const kernel_request& request);

/// The widest pairing (schedule.hpp) that the graph, the types and the depths allow, whatever the level.
/// - 1: all products are of f32.
/// - 2: q, k and v are bf16, tensors as they are passed, weighed by softmax's own weights. For a gradient: all its
///   products are of rows of such tensors.
/// - bf16_of_tile: that, in attention itself, with depths that tiles fill and scores of one product.
int widest_pairing(const kernel_request& request);

/// Whether the schedule of a prefill may multiply codes as integers: the level has instructions that do so, and in a
/// core queries and keys, or weights and values, are codes of 8 bits by the formula.
bool may_multiply_codes(const kernel_request& request);
/// Whether it may do so by tiles of bytes, if the level has them: all products are of bytes, and depths fill tiles.
bool may_tile_bytes(const kernel_request& request);

/// The pairing of the level's own instructions where it is allowed, else 1.
int usual_pairing(const kernel_request& request);

/// Channels of a key that are multiplied as integers at a time.
inline constexpr int coded_channels = 16;

/// How many products of integers the level's instructions add up at a time for a core in decode: four of bytes, two of
/// words of 16 bits; 0: its products are of f32. Scores have them if the formula makes queries and keys of codes of 8
/// bits, values if it allows weights to be rounded.
int integers_of_scores(const kernel_request& request, const plan& core);
int integers_of_values(const kernel_request& request, const plan& core);

/// The same in prefill, whose schedule says that it multiplies codes. All channels of a row share their scale there,
/// and weights are softmax's own, from 0 to 1; weights in i16 are words.
int integers_of_prefill_scores(const kernel_request& request, const plan& core);
int integers_of_prefill_values(const kernel_request& request, const plan& core);

/// A gradient's queries are cut into parts, each with sums of its own for all keys. A task is a part of a key head;
/// there are enough parts for this many tasks of a batch element, as long as a part has this many blocks of queries.
/// With fewer blocks, adding up the sums would take longer than making them.
inline constexpr int tasks_of_batch_element = 16, fewest_blocks_of_part = 8;

/// The tile of matrix products that are computed in full, before the attention or after it: positions and channels in
/// registers, and the fewest and most tiles of positions of one task. On a GPU a thread makes a tile.
struct product_tile {
    int positions, channels;
    static constexpr int fewest = 2, most = 8;
};
product_tile product_tile_of(const kernel_request& request);

}  // namespace attune::generators::inline kernel
