#pragma once
#include <attune/ir/graph_ir.hpp>
#include <attune/ir/shape_class.hpp>
#include <attune/runtime/threads.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace attune {

/// Layout version of the structs below and of the graphs in them; registries generated for another one are refused. 0.1
/// had 5.
inline constexpr int kernel_table_version = 7;

/// One compiled kernel: one variant, element types, depths, ISA level and class of shapes. Written by
/// `<target>_generator emit`.
struct kernel {
    const char* symbol;  ///< attune_<variant>_<dtype>_d<depth>x<value depth>_<target>_<fingerprint>, all [a-z0-9_];
                         ///< before the fingerprint what a kernel of other shapes serves, "decode1"
    const char* target;  ///< "x86-64-v3", ...
    element_type query, key, value, output;
    int depth, value_depth;
    int query_block, key_block;  ///< the tile in which work is cut and blocks are skipped
    std::size_t scratch_bytes;   ///< upper bound of what one thread allocates during a call
    const char* schedule;        ///< the schedule as JSON
    /// Halide's argv entry: a pointer to the user context, then the inputs in the graph's order (tensor:
    /// halide_buffer_t*, scalar: pointer to its value), then kv_lengths (batch), then, if `key_splits` is not 0, the
    /// i32 into how many parts the keys are split, then the outputs in the graph's order, then the saved rows, then
    /// the saved output. Dimensions innermost first: outputs proper (value depth, query, head, batch), rows the same
    /// with stride 0 along the value depth, scores and weights (key, query, head, batch), columns (key, head, batch),
    /// means over the heads (key, query, batch), tokens (channel, query, batch). An axis of an input that broadcasts
    /// has the call's extent and stride 0; an empty tensor has an address that may be read, and extents that say so.
    int (*call)(void** arguments);
    /// The same inputs, one output: u8 (key block, query block, head, batch): 0 skipped, 1 visited, 2 visited without
    /// mask.
    int (*blocks)(void** arguments);
    /// Rows of f32 that the kernel keeps for itself during a call, (batch, head, query) like those named: the caller
    /// lends the memory.
    int saved_rows{};
    /// 0 or 1: an output of f32 (batch, head, query, value depth) that it keeps for itself likewise.
    int saved_outputs{};
    /// The queries, per head, for which it is meant: both inclusive. Where several kernels serve a call, that of the
    /// narrowest range runs; where none does, the nearest.
    shape_class shapes{};
    int from_queries{1}, to_queries{std::numeric_limits<int>::max()};
    /// The most parts into which one call splits the keys of a (batch, key head); 0: the kernel does not split them,
    /// and is not told.
    int key_splits{};
    /// Where rows are stacked (the queries of a group of heads, at most query_block of each): what one thread allocates
    /// beside `scratch_bytes` for each row, and what is kept of each row for each part of the keys.
    std::size_t row_bytes{}, part_bytes{};
    /// Of matrix products that are computed in full: the most positions of one block, and the channels of a panel of
    /// packed weights.
    int product_positions{}, product_channels{};
    /// Of a gradient: bytes that its sums take for each query of a head, key of a query head and key of a key head, in
    /// each part of the queries, of which there are so many at most, of so many blocks at least; and multiply-adds for
    /// each pair. Else 0.
    struct sum_memory {
        std::size_t of_query{}, of_key{}, of_key_head{};
        int parts{}, blocks_of_part{}, depths{};
    } sums{};
};

/// What the generators found of a graph, in words, for `explain`.
struct graph_notes {
    struct condition {
        const char* text;  ///< a part of the mask
        const char* why;   ///< what it does for the blocks of a kernel
    };
    std::span<const condition> conditions{};
    std::span<const char* const> conventions{};
};

namespace detail {
/// Runs a kernel's entry with argv whose first place is free for the user context. Memory, threads and errors go
/// through attune, whatever Halide runtime the application has otherwise. Throws attune::error with what the kernel or
/// a task said. `pool`, unless it is null, runs the tasks. `shared_bytes`, unless it is null, becomes the most memory
/// that the kernel held at a time outside its tasks.
void invoke(int (*entry)(void**), void** arguments, int threads, const parallel_for* pool, std::size_t* shared_bytes);

/// A kernel's entry with such argv.
struct kernel_launch {
    int (*entry)(void**);
    void** arguments;
};

/// Runs kernels of the host that do not depend on each other, the last first, as one call: a thread that finds nothing
/// left to begin joins the loops of the kernels that still run. On the application's own pool one runs after another.
void invoke_together(std::span<const kernel_launch> launches, int threads, const parallel_for* pool);

/// What calls kernels of a GPU: attune::gpu, a library of its own, so that only programs with such kernels hold it.
struct device_call;
struct device_runtime {
    /// What is missing here for kernels of a target: a driver, a device; empty if they run. Cheap after the first time.
    const char* (*missing)(const char* target);
    /// An entry for `invoke`: calls the kernel that arguments[1], a device_call, says, with tensors on the device.
    /// Throws attune::error for a device, context, queue or buffer that the call cannot use, before anything is
    /// written.
    int (*launch)(void** arguments);
    /// Waits for the queue that such a call would use; of the call, its target and what says where are looked at.
    void (*synchronize)(const device_call& where) = nullptr;
};
extern const device_runtime gpus;

/// Whether kernels of a target run on a GPU.
bool is_device(std::string_view target);
}  // namespace detail

/// Everything compiled for one graph.
struct kernel_table {
    int version;
    const char* variant;  ///< as written in attune_add_variant: "my::alibi"
    graph_ir graph;
    std::span<const kernel> kernels;  ///< most demanding ISA level first
    /// Of the runtime that the kernels were linked with, which need not be the caller's: a shared library of kernels
    /// has its own.
    void (*invoke)(int (*entry)(void**), void** arguments, int threads, const parallel_for* pool,
                   std::size_t* shared_bytes) = detail::invoke;
    const detail::device_runtime* devices = nullptr;  ///< unless some kernels run on a GPU
    graph_notes notes{};
    void (*invoke_together)(std::span<const detail::kernel_launch> launches, int threads,
                            const parallel_for* pool) = detail::invoke_together;  ///< likewise
};

/// Defined by the generated registry, for exactly this graph at exactly this fingerprint: a variant that was changed
/// after its kernels were built, or never built, is an undefined reference that names it.
template <const auto& Graph, std::uint64_t Fingerprint> const kernel_table& kernels_of();

}  // namespace attune
