#pragma once
#include "kernel/schedule.hpp"

#include <array>
#include <optional>
#include <span>

namespace attune::generators::inline kernel {

/// The largest value of a field, whichever type has it: far beyond useful ones, as loops that are written out would
/// compile for hours, and other fields would fill memory.
namespace most {
inline constexpr int lanes = 16, query_block = 4096, key_block = 4096, query_tile = 256, depth_unroll = 64,
                     key_tile = 64, value_tile = 256, chunk = 4096, pairing = 64;
inline constexpr int key_splits = 1024;  // on a GPU shared memory holds a weight for each when they are merged
inline constexpr int warps = 32, tiles = 4;
inline constexpr int block_of_tokens = 32, rows = 32, vectors = 16;  // for a recurrence, whose loops are written out
inline constexpr int block = 1024, sum_rows = 256, sum_channels = 4096;  // all pairs of a block are kept
}  // namespace most

/// A field of one of the types of schedules.
template <class Cut> struct schedule_field {
    const char* name;
    int Cut::* member;
    int most;
};

/// A field of another type that objects of version 0.1 have as well: its neutral value, or nothing if any value was
/// ignored.
struct foreign_field {
    const char* name;
    std::optional<int> neutral;
    const char* where;  ///< "in prefill"
};

template <class Cut> struct schedule_fields;

template <> struct schedule_fields<cpu_prefill> {
    static constexpr schedule_field<cpu_prefill> own[] = {
        {"lanes", &cpu_prefill::lanes, most::lanes},
        {"query_block", &cpu_prefill::query_block, most::query_block},
        {"key_block", &cpu_prefill::key_block, most::key_block},
        {"query_tile", &cpu_prefill::query_tile, most::query_tile},
        {"depth_unroll", &cpu_prefill::depth_unroll, most::depth_unroll},
        {"key_tile", &cpu_prefill::key_tile, most::key_tile},
        {"value_tile", &cpu_prefill::value_tile, most::value_tile},
        {"value_chunk", &cpu_prefill::chunk, most::chunk},
        {"pairing", &cpu_prefill::pairing, most::pairing},
    };
    static constexpr foreign_field foreign[] = {{"key_splits", 1, "in prefill"}};
};

template <> struct schedule_fields<cpu_decode> {
    static constexpr schedule_field<cpu_decode> own[] = {
        {"lanes", &cpu_decode::lanes, most::lanes},
        {"query_block", &cpu_decode::query_block, most::query_block},
        {"key_block", &cpu_decode::key_block, most::key_block},
        {"query_tile", &cpu_decode::query_tile, most::query_tile},
        {"depth_unroll", &cpu_decode::depth_unroll, most::depth_unroll},
        {"key_tile", &cpu_decode::key_tile, most::key_tile},
        {"value_tile", &cpu_decode::value_tile, most::value_tile},
        {"key_splits", &cpu_decode::key_splits, most::key_splits},
    };
    static constexpr foreign_field foreign[] = {{"chunk", 1, "in decode"}, {"pairing", 1, "in decode"}};
};

template <> struct schedule_fields<cpu_gradient> {
    static constexpr schedule_field<cpu_gradient> own[] = {
        {"lanes", &cpu_gradient::lanes, most::lanes},
        {"block", &cpu_gradient::block, most::block},
        {"query_tile", &cpu_gradient::query_tile, most::query_tile},
        {"key_tile", &cpu_gradient::key_tile, most::key_tile},
        {"depth_unroll", &cpu_gradient::depth_unroll, most::depth_unroll},
        {"sum_rows", &cpu_gradient::sum_rows, most::sum_rows},
        {"sum_channels", &cpu_gradient::sum_channels, most::sum_channels},
        {"pairing", &cpu_gradient::pairing, 2},
    };
    static constexpr std::array<foreign_field, 0> foreign{};  // in version 0.1 there was none
};

template <> struct schedule_fields<cpu_recurrence> {
    static constexpr schedule_field<cpu_recurrence> own[] = {
        {"lanes", &cpu_recurrence::lanes, most::lanes},
        {"block", &cpu_recurrence::block, most::block_of_tokens},
        {"rows", &cpu_recurrence::rows, most::rows},
        {"vectors", &cpu_recurrence::vectors, most::vectors},
    };
    static constexpr std::array<foreign_field, 0> foreign{};  // in version 0.1 there was none
};

template <> struct schedule_fields<gpu_prefill> {
    static constexpr schedule_field<gpu_prefill> own[] = {
        {"query_block", &gpu_prefill::query_block, most::query_block},
        {"key_block", &gpu_prefill::key_block, most::key_block},
        {"query_tile", &gpu_prefill::query_tile, most::query_tile},
        {"depth_unroll", &gpu_prefill::depth_unroll, most::depth_unroll},
        {"key_tile", &gpu_prefill::key_tile, most::key_tile},
        {"chunk", &gpu_prefill::chunk, most::chunk},
    };
    static constexpr foreign_field foreign[] = {{"lanes", 1, "on a GPU"},
                                                {"value_tile", std::nullopt, ""},
                                                {"key_splits", 1, "in prefill"},
                                                {"pairing", 1, "on a GPU"}};
};

template <> struct schedule_fields<gpu_gradient> {
    static constexpr schedule_field<gpu_gradient> own[] = {
        {"query_block", &gpu_gradient::query_block, most::query_block},
        {"key_block", &gpu_gradient::key_block, most::key_block},
        {"query_tile", &gpu_gradient::query_tile, most::query_tile},
        {"depth_unroll", &gpu_gradient::depth_unroll, most::depth_unroll},
        {"key_tile", &gpu_gradient::key_tile, most::key_tile},
    };
    static constexpr std::array<foreign_field, 0> foreign{};  // in version 0.1 there was none
};

template <> struct schedule_fields<gpu_tensor_prefill> {
    static constexpr schedule_field<gpu_tensor_prefill> own[] = {
        {"warps", &gpu_tensor_prefill::warps, most::warps},
        {"tiles", &gpu_tensor_prefill::tiles, most::tiles},
        {"key_block", &gpu_tensor_prefill::key_block, most::key_block},
    };
    static constexpr std::array<foreign_field, 0> foreign{};  // in version 0.1 there was none
};

template <> struct schedule_fields<gpu_tensor_decode> {
    static constexpr schedule_field<gpu_tensor_decode> own[] = {
        {"query_block", &gpu_tensor_decode::query_block, most::query_block},
        {"warps", &gpu_tensor_decode::warps, most::warps},
        {"key_block", &gpu_tensor_decode::key_block, most::key_block},
        {"key_splits", &gpu_tensor_decode::key_splits, most::key_splits},
    };
    static constexpr std::array<foreign_field, 0> foreign{};  // in version 0.1 there was none
};

template <> struct schedule_fields<gpu_decode> {
    static constexpr schedule_field<gpu_decode> own[] = {
        {"query_block", &gpu_decode::query_block, most::query_block},
        {"key_block", &gpu_decode::key_block, most::key_block},
        {"query_tile", &gpu_decode::query_tile, most::query_tile},
        {"depth_unroll", &gpu_decode::depth_unroll, most::depth_unroll},
        {"key_tile", &gpu_decode::key_tile, most::key_tile},
        {"value_tile", &gpu_decode::value_tile, most::value_tile},
        {"chunk", &gpu_decode::chunk, most::chunk},
        {"key_splits", &gpu_decode::key_splits, most::key_splits},
    };
    static constexpr foreign_field foreign[] = {{"lanes", 1, "on a GPU"}, {"pairing", 1, "in decode"}};
};

/// Throws std::runtime_error with the first limit of a field that `s` is beyond, whatever the depth.
void check_limits(const schedule& s);

/// Throws std::runtime_error: "expected a schedule's <field> to be <rule>, got <got>; try <instead>".
[[noreturn]] void refuse_field(const std::string& field, const std::string& rule, int got, int instead);

}  // namespace attune::generators::inline kernel
