#include "kernel/schedule.hpp"

#include "base/formatting.hpp"
#include "kernel/schedule_fields.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>

namespace attune::generators::inline kernel {
namespace {

constexpr std::string_view gradient = "gradient", recurrence = "recurrence";
constexpr int most_written_out = 1024;  ///< vectors that are multiplied and added, in a loop's body
constexpr int most_gpu_threads = 1024;  ///< of a block
constexpr int threads_a_key = 8;        ///< of a GPU, in decode

void multiple(const char* name, int whole, const char* part_name, int part, const char* where = "") {
    if (whole % part != 0)
        refuse_field(name, fmt::format("a multiple of {}, {}{}", part_name, part, where), whole,
                     std::max(whole / part, 1) * part);
}

void at_most(const char* name, int got, int most, const char* beside) {
    if (got > most) refuse_field(name, fmt::format("{} at most beside its {}", most, beside), got, most);
}

void divides(const char* name, int got, const char* of, int whole) {
    if (whole % got != 0) refuse_field(name, fmt::format("a divisor of {}, {}", of, whole), got, std::gcd(whole, got));
}

void fits_loop_of_scores(int vectors, int depth_unroll, int key_tile) {
    at_most("key_tile", key_tile, most_written_out / (vectors * depth_unroll), "query_tile and depth_unroll");
}

/// Checks the size of the loop bodies of both products, as written out.
void fits_loops(int vectors, int depth_unroll, int key_tile, const char* values_name, int values) {
    fits_loop_of_scores(vectors, depth_unroll, key_tile);
    at_most(values_name, values, most_written_out / vectors, "query_tile");
}

void pairs_channels(int pairing, int depth) {
    if (pairing == 2 && depth % 2 != 0)
        refuse_field("pairing", fmt::format("1 where the depth, {}, is odd", depth), pairing, 1);
}

/// Tiles are of 16 rows and columns, and of 32 bf16 or 64 bytes.
void fills_tiles(const cpu_prefill& s, const depth_pair& depths) {
    if (depths.depth % s.pairing != 0 || depths.value_depth % rows_of_tile != 0)
        refuse_field("pairing",
                     fmt::format("1 where the depths, {} and {}, are no multiples of {} and {}", depths.depth,
                                 depths.value_depth, s.pairing, rows_of_tile),
                     s.pairing, 1);
    multiple("query_tile", s.query_tile, "the rows of a tile", rows_of_tile);
    multiple("key_tile", s.key_tile, "the rows of a tile", rows_of_tile);
    multiple("value_chunk", s.chunk, "the rows of a tile", rows_of_tile);
    divides("value_chunk", s.chunk, "the value depth", depths.value_depth);
    const int across = s.query_tile / rows_of_tile;  // products of tiles are written out, too
    at_most("key_tile", s.key_tile, most_written_out * s.pairing / (across * depths.depth) * rows_of_tile,
            "query_tile and the depth");
    at_most("key_block", s.key_block, most_written_out * rows_of_tile / (across * s.chunk) * s.pairing,
            "query_tile and value_chunk");
}

void check_rules(const cpu_prefill& s, const depth_pair& depths) {
    const int depth = depths.depth;
    if (s.pairing != 1 && s.pairing != 2 && s.pairing != bytes_of_word && !is_tiled(s))
        refuse_field("pairing", fmt::format("1, 2, {}, {} or {}", bytes_of_word, bf16_of_tile, bytes_of_tile),
                     s.pairing, 1);
    pairs_channels(s.pairing, depth);
    if (s.pairing != 1) multiple("key_block", s.key_block, "pairing", s.pairing);
    if (is_tiled(s)) fills_tiles(s, depths);
    multiple("query_tile", s.query_tile, "lanes", s.lanes);
    multiple("query_block", s.query_block, "query_tile", s.query_tile);
    divides("depth_unroll", s.depth_unroll, "the depth", depth);
    multiple("key_block", s.key_block, "key_tile", s.key_tile);
    multiple("value_chunk", s.chunk, "value_tile", s.value_tile);
    fits_loops(s.query_tile / s.lanes, is_tiled(s) ? 1 : s.depth_unroll, s.key_tile, "value_tile", s.value_tile);
}

void check_rules(const cpu_decode& s, const depth_pair&) {
    const int step = s.keys_of_step();  // `lanes` to its users
    if (step % s.key_tile != 0)
        refuse_field("key_tile", fmt::format("a divisor of lanes, {}, in decode", step), s.key_tile,
                     std::gcd(step, s.key_tile));
    multiple("key_block", s.key_block, "lanes", step, ", in decode");
    multiple("key_block", s.key_block, "value_tile", s.value_tile, ", in decode");
    fits_loops(s.query_tile, s.depth_unroll, s.key_tile, "value_tile", s.value_tile);
}

void check_rules(const cpu_gradient& s, const depth_pair& depths) {
    multiple("query_tile", s.query_tile, "lanes", s.lanes);
    multiple("block", s.block, "query_tile", s.query_tile);
    multiple("block", s.block, "key_tile", s.key_tile);
    pairs_channels(s.pairing, depths.depth), pairs_channels(s.pairing, depths.value_depth);
    if (s.pairing == 2) multiple("block", s.block, "pairing", s.pairing);
    divides("depth_unroll", s.depth_unroll, "the depth", depths.depth);
    multiple("sum_channels", s.sum_channels, "lanes", s.lanes);
    divides("sum_channels", s.sum_channels, "the channels of a sum", width_of_sums(s.lanes, depths));
    divides("sum_rows", s.sum_rows, "block", s.block);
    fits_loop_of_scores(s.query_tile / s.lanes, s.depth_unroll, s.key_tile);
    at_most("sum_rows", s.sum_rows, most_written_out / (s.sum_channels / s.lanes), "sum_channels");
}

/// Rows need no rule: a divisor of their product's height is used (part_of in kernel/cpu_schedule.hpp).
void check_rules(const cpu_recurrence& s, const depth_pair&) {
    if (s.block > s.lanes && s.block % s.lanes != 0) multiple("block", s.block, "lanes", s.lanes);
    at_most("vectors", s.vectors, most_written_out / s.rows, "rows");
}

void check_rules(const gpu_prefill& s, const depth_pair& depths) {
    multiple("query_block", s.query_block, "query_tile", s.query_tile);
    divides("depth_unroll", s.depth_unroll, "the depth", depths.depth);
    multiple("key_block", s.key_block, "key_tile", s.key_tile);
    at_most("key_block", s.key_block, most_gpu_threads / (s.query_block / s.query_tile) * s.key_tile,
            "key_tile, query_block and query_tile");
    fits_loops(s.query_tile, s.depth_unroll, s.key_tile, "chunk", s.chunk);
}

void check_rules(const gpu_gradient& s, const depth_pair& depths) {
    multiple("query_block", s.query_block, "query_tile", s.query_tile);
    divides("depth_unroll", s.depth_unroll, "the depth", depths.depth);
    multiple("key_block", s.key_block, "key_tile", s.key_tile);
    at_most("key_block", s.key_block, most_gpu_threads / (s.query_block / s.query_tile) * s.key_tile,
            "key_tile, query_block and query_tile");
    fits_loop_of_scores(s.query_tile, s.depth_unroll, s.key_tile);
}

/// The most sums of a thread; beyond it most would lie in memory.
constexpr int most_sums = 192;

void check_rules(const gpu_tensor_prefill& s, const depth_pair& depths) {
    constexpr int step = gpu_tensor_prefill::channels_of_step, widest = 256;
    for (const int depth : {depths.depth, depths.value_depth})
        if (depth % step != 0 || depth > widest)
            throw std::runtime_error(fmt::format(
                "expected depths that are multiples of {} up to {} for tensor cores, got {}x{}; try other blocks", step,
                widest, depths.depth, depths.value_depth));
    multiple("key_block", s.key_block, "the keys of two tiles", 2 * gpu_tensor_prefill::keys_of_tile);
    // A thread has four sums of each tile of 16 x 8.
    at_most("key_block", s.key_block, 2 * most_sums / s.tiles - depths.value_depth, "tiles and the value depth");
}

void check_rules(const gpu_tensor_decode& s, const depth_pair& depths) { check_rules(s.of_split(), depths); }

void check_rules(const gpu_decode& s, const depth_pair&) {
    multiple("key_block", s.key_block, "the threads that share a key", threads_a_key, ", in decode");
    multiple("key_block", s.key_block, "key_tile", s.key_tile);
    at_most("key_block", s.key_block, most_gpu_threads / threads_a_key * s.key_tile, "key_tile");
    fits_loops(s.query_tile, s.depth_unroll, s.key_tile, "value_tile", s.value_tile);
}

template <class Cut> void check_limits_of(const Cut& s) {
    for (const auto& [name, member, most] : schedule_fields<Cut>::own) {
        if (s.*member < 1) refuse_field(name, "1 or more", s.*member, 1);
        if (s.*member > most) refuse_field(name, fmt::format("{} at most", most), s.*member, most);
    }
    if constexpr (requires { s.lanes; })
        if (std::ranges::none_of(levels(), [&](const level& isa) { return !isa.is_gpu && isa.lanes == s.lanes; }))
            refuse_field("lanes", "those of a level, 4, 8 or 16", s.lanes,
                         std::max(4, static_cast<int>(std::bit_floor(static_cast<unsigned>(s.lanes)))));
}

}  // namespace

void refuse_field(const std::string& field, const std::string& rule, int got, int instead) {
    throw std::runtime_error(
        fmt::format("expected a schedule's {} to be {}, got {}; try {}", field, rule, got, std::max(instead, 1)));
}

block_sizes blocks_of(const schedule& s) {
    return std::visit(
        [](const auto& cut) {
            if constexpr (requires { cut.block; })
                return block_sizes{cut.block, cut.block};
            else if constexpr (requires { cut.query_block(); })
                return block_sizes{cut.query_block(), cut.key_block};
            else
                return block_sizes{cut.query_block, cut.key_block};
        },
        s);
}

block_sizes tile_of(const schedule& s) {
    return std::visit(
        [](const auto& cut) {
            if constexpr (requires { cut.query_tile; })
                return block_sizes{cut.query_tile, cut.key_tile};
            else if constexpr (requires { cut.vectors; })
                return block_sizes{cut.rows, cut.vectors * cut.lanes};  // of a recurrence
            else if constexpr (requires { cut.of_split(); })
                return tile_of(cut.of_split());
            else
                return block_sizes{cut.tiles * cut.rows_of_tile, cut.keys_of_tile};
        },
        s);
}

shape_class shapes_of(const schedule& s) {
    return std::visit([](const auto& cut) { return cut.shapes; }, s);
}

int lanes_of(const schedule& s) {
    return std::visit(
        [](const auto& cut) {
            if constexpr (requires { cut.lanes; })
                return cut.lanes;
            else
                return 1;
        },
        s);
}

int pairing_of(const schedule& s) {
    return std::visit(
        [](const auto& cut) {
            if constexpr (requires { cut.pairing; })
                return cut.pairing;
            else
                return 1;
        },
        s);
}

bool multiplies_codes(const schedule& s) { return pairing_of(s) == bytes_of_word || pairing_of(s) == bytes_of_tile; }

bool is_tiled(const schedule& s) { return pairing_of(s) == bf16_of_tile || pairing_of(s) == bytes_of_tile; }

int splits_of(const schedule& s) {
    return std::visit(
        [](const auto& cut) {
            if constexpr (requires { cut.key_splits; })
                return cut.key_splits;
            else
                return 1;
        },
        s);
}

shape_class shape_class_from(std::string_view text) {
    for (const shape_class c : {shape_class::prefill, shape_class::decode})
        if (text == name_of(c)) return c;
    throw std::runtime_error("expected a class of shapes, prefill or decode, got \"" + std::string(text) + "\"");
}

std::string_view purpose_of(const schedule& s) {
    return is_for_gradient(s) ? gradient : is_for_recurrence(s) ? recurrence : name_of(shapes_of(s));
}

std::string_view purpose_from(std::string_view text) {
    for (const std::string_view purpose :
         {name_of(shape_class::prefill), name_of(shape_class::decode), gradient, recurrence})
        if (text == purpose) return purpose;
    throw std::runtime_error("expected a schedule's \"shapes\" to be prefill, decode, gradient or recurrence, got \"" +
                             std::string(text) + "\"");
}

int width_of_sums(int lanes, const depth_pair& depths) {
    return (std::max(depths.depth, depths.value_depth) + lanes - 1) / lanes * lanes;
}

void check_limits(const schedule& s) {
    std::visit([](const auto& cut) { check_limits_of(cut); }, s);
}

void check(const schedule& s, const depth_pair& depths) {
    check_limits(s);
    std::visit([&](const auto& cut) { check_rules(cut, depths); }, s);
}

}  // namespace attune::generators::inline kernel
