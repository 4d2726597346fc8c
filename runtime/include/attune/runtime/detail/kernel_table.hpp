#pragma once
#include <attune/ir/graph_ir.hpp>
#include <attune/ir/shape_class.hpp>
#include <attune/runtime/threads.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string_view>

namespace attune {

/// The version of the layout of the structs below and of the graphs in them. Registries with another version are
/// refused. attune 0.1 had version 5.
inline constexpr int kernel_table_version = 16;

/// One compiled kernel: one variant, element types, depths, ISA level and class of shapes. Written by
/// `<target>_generator emit`.
struct kernel {
    const char* symbol;  ///< attune_<variant>_<dtype>_d<depth>x<value depth>_<target>_<fingerprint>, all [a-z0-9_];
                         ///< kernels for other shapes than prefill name these before the fingerprint: "decode1"
    const char* target;  ///< "x86-64-v3", ...
    element_type query, key, value, output;
    int depth, value_depth;
    int query_block, key_block;  ///< the tile in which work is cut and blocks are skipped
    std::size_t scratch_bytes;   ///< upper bound of what one thread allocates during a call
    const char* schedule;        ///< the schedule as JSON
    /// Halide's argv entry: a pointer to the user context, then the inputs in the graph's order (tensor:
    /// halide_buffer_t*, scalar: pointer to its value), then kv_lengths (batch), then, if `key_splits` is not 0, two
    /// i32, into how many splits the keys are cut and the most keys in use of any batch element, then the outputs in
    /// the graph's order, then the saved rows, then the saved output. Dimensions innermost first: outputs proper (value
    /// depth, query, head, batch), rows the same with stride 0 along the value depth, scores and weights (key, query,
    /// head, batch), columns (key, head, batch), means over the heads (key, query, batch), tokens (channel, query,
    /// batch). An axis of an input that broadcasts has the call's extent and stride 0; an empty tensor has an address
    /// that may be read, and extents that say so.
    ///
    /// Of a recurrence an entry makes one chunk, `query_block` tokens at most, of one state: after kv_lengths three
    /// i32, the batch element, the state's head and the first token, then the state before, f32 (value depth, depth),
    /// then the outputs proper, cut to the chunk's tokens, the batch element and the heads that read the state, then
    /// the state after the chunk, which may be the one before.
    int (*call)(void** arguments);
    /// The states of blocks. The same inputs, and one output, u8 (key block, query block, head, batch): 0 skipped, 1
    /// visited, 2 visited without mask.
    int (*blocks)(void** arguments);
    /// Stores what the graph says; runs before the attention. The same inputs, and a buffer for each tensor that is
    /// stored to, in the order of their first stores. Null if the graph stores nothing.
    int (*stores)(void** arguments){};
    /// The number of rows, f32 (batch, head, query), that the kernel keeps for itself during a call, in memory that the
    /// caller lends.
    int saved_rows{};
    /// The number of outputs, f32 (batch, head, query, value depth), that it keeps likewise: 0 or 1.
    int saved_outputs{};
    /// The numbers of queries, per head, that it is meant for, both inclusive. If several kernels serve a call, the one
    /// with the narrowest range runs; if none does, the nearest.
    shape_class shapes{};
    int from_queries{1}, to_queries{std::numeric_limits<int>::max()};
    /// The most splits into which one call cuts the keys of a (batch, key head); 0 if the kernel does not split them.
    int key_splits{};
    /// The most keys that a query sees, where the formula bounds them, as windows and sinks do: a number, and integers
    /// of the call times `factor`, by node. 0 elsewhere.
    struct key_bound {
        struct number_of_call {
            int node{}, factor{};
        };
        int constant{};
        std::array<number_of_call, 4> numbers{};
        constexpr bool bounded() const { return constant != 0 || numbers[0].factor != 0; }
    } visible_keys{};
    /// For kernels that stack rows, the queries of a group of heads, at most query_block of each: the bytes that one
    /// thread allocates for each row in addition to `scratch_bytes`, and the memory of each split of the keys: the
    /// bytes of a row, and the number at a multiple of which rows end.
    std::size_t row_bytes{};
    struct split_memory {
        std::size_t of_row{};
        int rows{1};
    } splits{};
    /// For matrix products that are computed in full: the most positions of one block, and the channels of a panel of
    /// packed weights.
    int product_positions{}, product_channels{};
    /// The multiply-adds of each pair of a query and a key in products over a depth.
    int depths_of_pair{};
    /// For a gradient: the bytes that its sums take for each query of a head, key of a query head and key of a key
    /// head, in each part of the queries; the parts of all key heads, and the fewest blocks of a part. Else 0.
    struct sum_memory {
        std::size_t of_query{}, of_key{}, of_key_head{};
        int parts{}, blocks_of_part{};
    } sums{};
    /// The models of CPUs on which its schedule was measured to be faster than the default's, with commas between:
    /// "amd-25-17,amd-26-2". It runs there, and on models near them for which the table has no kernel. Null: on any.
    const char* cpus{};
    /// The bytes at a multiple of which all rows of q, k, v, pages and the outputs proper begin: an address on a
    /// device, and each stride. A call with others takes another kernel of the same target. 0: rows may begin anywhere.
    int row_alignment{};
    /// The compute capability, ten times, of the cards that run it: 90, and no later one. 0: all that run its target.
    int capability{};
};

/// The generators' sentences about a graph, for `explain`.
struct graph_notes {
    struct condition {
        const char* text;  ///< a part of the mask
        const char* why;   ///< its effect on the blocks of a kernel
    };
    std::span<const condition> conditions{};
    std::span<const char* const> conventions{};
};

namespace detail {
/// The options of a call that its threads heed.
struct task_options {
    const parallel_for* pool{};                    ///< unless it is null, runs the tasks
    const std::function<void()>* between_tasks{};  ///< unless it is null, called by the calling thread
};

/// Runs a kernel's entry. The first place of argv must be free for the user context. Memory, threads and errors go
/// through attune, even if the application has a Halide runtime of its own. Throws attune::error with the message of
/// the kernel or of a task, or what `between_tasks` threw. `shared_bytes`, unless it is null, becomes the most memory
/// that the kernel held at a time outside its tasks.
void invoke(int (*entry)(void**), void** arguments, int threads, task_options how, std::size_t* shared_bytes);

/// A kernel's entry with such argv.
struct kernel_launch {
    int (*entry)(void**);
    void** arguments;
};

/// An entry for `invoke`: runs a recurrence, a task for each state, chunk by chunk. arguments[1] is a recurrent_call.
int run_recurrence(void** arguments);

/// Runs kernels of the host that do not depend on each other as one call, the last first. A thread that finds no kernel
/// left to start joins the loops of those that still run; so does each task of the application's own pool.
void invoke_together(std::span<const kernel_launch> launches, int threads, task_options how);

/// The library that calls kernels of a GPU, attune::gpu. It is separate so that only programs with such kernels link
/// it.
struct device_call;
struct device_runtime {
    /// What this machine lacks for kernels of a target, such as a driver or a device, or devices that all have the one
    /// compute capability that a kernel is for (kernel::capability); empty if they run. Cheap after the first call.
    const char* (*missing)(const char* target, int capability);
    /// An entry for `invoke`: calls the kernel that arguments[1], a device_call, says, with tensors on the device.
    /// Throws attune::error for a device, context, queue or buffer that the call cannot use, before anything is
    /// written.
    int (*launch)(void** arguments);
    /// Waits for the queue that such a call would use. Of the call, only the target, device, context and stream are
    /// read.
    void (*synchronize)(const device_call& where) = nullptr;
};
extern const device_runtime gpus;

/// Whether kernels of a target run on a GPU.
bool is_device(std::string_view target);
}  // namespace detail

/// Everything compiled for one graph. In every layout the first two fields are these: a refusal of another one reads
/// both.
struct kernel_table {
    int version;
    const char* variant;  ///< as written in attune_add_variant: "my::alibi"
    graph_ir graph;
    std::span<const kernel> kernels;  ///< most demanding ISA level first
    /// Functions of the runtime that the kernels were linked with. It need not be the caller's: a shared library of
    /// kernels has its own.
    void (*invoke)(int (*entry)(void**), void** arguments, int threads, detail::task_options how,
                   std::size_t* shared_bytes) = detail::invoke;
    const detail::device_runtime* devices = nullptr;  ///< unless some kernels run on a GPU
    graph_notes notes{};
    void (*invoke_together)(std::span<const detail::kernel_launch> launches, int threads,
                            detail::task_options how) = detail::invoke_together;  ///< likewise
    int (*recurrence)(void** arguments) = detail::run_recurrence;                 ///< likewise
};

/// Defined by the generated registry, for exactly this graph and fingerprint. A variant that was changed after its
/// kernels were built, or that was never built, is an undefined reference that names it.
template <const auto& Graph, std::uint64_t Fingerprint> const kernel_table& kernels_of();

}  // namespace attune
