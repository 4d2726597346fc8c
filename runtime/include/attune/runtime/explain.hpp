#pragma once
#include <attune/ir/element_type.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace attune {

/// Which blocks of (query tile, key block) a kernel visits for given arguments: 0 skipped, 1 visited, 2 visited, and no
/// pair of the sub-blocks of keys that it visits there is masked, so that no mask is computed.
struct block_map {
    int batches{}, heads{}, query_blocks{}, key_blocks{};
    int query_block{}, key_block{};      ///< queries and keys of one block
    std::vector<std::uint8_t> blocks{};  ///< (batch, head, query block, key block), dense

    std::uint8_t at(int batch, int head, int query, int key) const {
        const auto row = (static_cast<std::int64_t>(batch) * heads + head) * query_blocks + query;
        return blocks[static_cast<std::size_t>(row * key_blocks + key)];
    }
    std::int64_t total() const { return static_cast<std::int64_t>(blocks.size()); }
    std::int64_t visited() const;
    std::int64_t unmasked() const;  ///< visited blocks without a mask
    std::int64_t pairs_visited(std::int64_t query_length,
                               std::int64_t key_length) const;  ///< (query, key) in visited blocks, over all heads
};

/// What a call would do, for people (text) and programs (json).
struct explanation {
    struct argument {
        std::string name, stands_for;  ///< "tensor", "number"; of an output its kind: "output", "row", "scores", ...
        element_type element{};
        std::vector<std::string> axes;    ///< outermost first
        std::vector<std::int64_t> shape;  ///< of the tensor that was passed; of an output: the shape that it must have
    };
    struct condition {
        std::string text;   ///< one operand of a mask's &&: "kv_idx <= q_idx"
        std::string skips;  ///< how blocks are skipped by it, or why none is
    };

    /// Sequences of a call with cu_seqlens_q that one kernel computes.
    struct packed_part {
        std::int64_t first, sequences, queries;  ///< queries of each
        std::string kernel;
    };

    std::string variant, formula, kernel, target, why, shapes,
        schedule;  ///< shapes: the class of the kernel and what it serves; schedule is JSON
    std::int64_t batches{}, heads{}, key_heads{}, query_length{}, key_length{};
    int depth{}, value_depth{};
    element_type query{}, key{}, value{}, output{};
    std::vector<argument> inputs, outputs;
    int query_block{}, key_block{};
    std::int64_t blocks{}, blocks_visited{}, blocks_unmasked{};
    std::vector<condition> conditions;
    std::vector<std::string> semantics;  ///< the variant's conventions, a sentence for each
    double flops{};  ///< multiplications and additions of the pairs in visited blocks and of projections: an upper
                     ///< bound of the useful work
    std::int64_t input_bytes{}, output_bytes{};  ///< of the elements, strides aside
    std::size_t scratch_bytes{};                 ///< of one thread, at most
    std::size_t saved_bytes{};                   ///< rows and outputs that are kept from one pass to the next; exact
    int key_splits{};           ///< splits of the keys that tasks share; 0 if the kernel does not split keys
    std::size_t split_bytes{};  ///< memory of all splits for merging
    std::size_t sum_bytes{};    ///< of a gradient, the sums of all parts of the queries
    std::size_t table_bytes{};  ///< tables for conditions, one copy for all threads, as large as those of `blocks`; and
                                ///< the state of each block of keys for each thread, 9 bytes at most
    std::size_t tensor_bytes{};  ///< tensors that the kernel computes in full before the attention reads them, such as
                                 ///< projections; exact, but of precomputed(...) at most
    std::size_t packed_bytes{};  ///< weights of projections, packed in the order of their multiplication; exact
    std::size_t stack_bytes{};   ///< of the caller's stack, at most
    std::size_t workspace_bytes{};  ///< all of these together: scratch of every thread, saved rows, splits, sums,
                                    ///< tables, tensors, packed weights
    int threads{};
    bool deterministic{};  ///< whether the options or ATTUNE_DETERMINISTIC asked for it; the splits of the keys then
                           ///< depend on neither batch nor key length

    /// The number of calls of which the call is made, each on some batch elements or heads: tensors reach beyond 2^31 -
    /// 1 elements. If more than one, everything else here, except blocks, inputs and outputs, describes the first of
    /// them, the largest.
    int calls{1};

    /// With cu_seqlens_q: everything else here, except inputs and outputs, describes the part with the most queries.
    std::vector<packed_part> packed;

    std::string text() const;
    std::string json() const;
};

/// The kernels that are linked for a variant.
struct kernel_list {
    struct entry {
        std::string symbol, target;
        element_type query{}, key{}, value{}, output{};
        int depth{}, value_depth{};
        std::string shapes;                ///< "prefill", "decode"
        int from_queries{}, to_queries{};  ///< the numbers of queries that it is meant for, inclusive
        std::string cpus;                  ///< the CPU models that it is meant for: "amd-25-17,amd-26-2"; empty: any
        std::string missing;               ///< what this CPU lacks to run it; empty if it runs
        bool chosen{};                     ///< whether some call of these types and depths runs this kernel
        std::string why;                   ///< for a chosen kernel
    };
    std::string variant;
    std::vector<entry> entries;

    std::string text() const;
    std::string json() const;
};

}  // namespace attune
