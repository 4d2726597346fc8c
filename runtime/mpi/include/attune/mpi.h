#ifndef ATTUNE_MPI_H
#define ATTUNE_MPI_H
/// One attention call of all ranks of an MPI job, from C99. runtime/docs/scale_out.md says what the ranks do, and
/// attune/c.h how a call is written.
///
///     attune_mpi_context* world = NULL;
///     attune_mpi_layout* layout = NULL;
///     const attune_variant* shard = my_alibi_shard_variant();
///     what.variants = &shard, what.variant_count = 1, what.heads = 32, what.key_heads = 8, what.tokens = 1 << 20;
///     if (attune_mpi_make_context(MPI_COMM_WORLD, NULL, &world) != ATTUNE_OK ||
///         attune_mpi_plan(world, &what, NULL, 0, NULL, &layout) != ATTUNE_OK ||
///         attune_mpi_run(world, layout, shard, list, 7, NULL, NULL) != ATTUNE_OK) puts(attune_error_text());
///
/// Link attune::mpi (attune-mpi.pc) and the static library of the kernels.
///
/// Functions that take a context are collective: all ranks call them in the same order, each in the thread that
/// initialized MPI. Where one rank's arguments are refused, all ranks return ATTUNE_REFUSED with the same sentence, and
/// the context goes on; only a null context is refused on its own rank alone. ATTUNE_FAILED says that the context has
/// failed, in this call or in one before: outputs are undefined, and it makes no more calls.
#include <attune/c.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Ranks that make calls together.
typedef struct attune_mpi_context attune_mpi_context;
/// The tokens of each rank, and its messages.
typedef struct attune_mpi_layout attune_mpi_layout;
/// A call that all ranks have checked and agreed on, to be made many times.
typedef struct attune_mpi_call attune_mpi_call;

/// Null or all zeros for the defaults.
typedef struct attune_mpi_options {
    size_t size;          ///< sizeof(attune_mpi_options); 0 stands for the struct's first version
    double timeout;       ///< seconds that this rank waits for another before the call fails; 0: 60; INFINITY: no end
    double grace;         ///< seconds in which, after a failure, the ranks tell each other why; 0: 0.25
    int32_t reserved[8];  ///< zeros
} attune_mpi_options;

/// Makes a context of a copy of a communicator: the caller's is not changed. `*context` is null where it is not
/// ATTUNE_OK. MPI runs with MPI_THREAD_FUNNELED at least.
attune_status attune_mpi_make_context(MPI_Comm communicator, const attune_mpi_options* options,
                                      attune_mpi_context** context) ATTUNE_NOEXCEPT;
/// Before MPI_Finalize, and after the last call. Prepared calls keep what they need of it. Null is nothing.
void attune_mpi_free_context(attune_mpi_context* context) ATTUNE_NOEXCEPT;

/// Which rank has which tokens: attune::mpi::arrangement.
enum {
    ATTUNE_MPI_BEST = 0,  ///< the one that the cost model says is fastest
    ATTUNE_MPI_CONTIGUOUS = 1,
    ATTUNE_MPI_ZIGZAG = 2,
    ATTUNE_MPI_STRIPED = 3,
    ATTUNE_MPI_DOCUMENTS = 4,
    ATTUNE_MPI_AFFINITY = 5,
    ATTUNE_MPI_GREEDY = 6,
    ATTUNE_MPI_PORTS = 7,
    ATTUNE_MPI_OWN = 8  ///< `positions` of the struct below
};

/// The purpose of a plan, as attune::mpi::planning (attune/mpi/planning.hpp). The same on all ranks, except
/// `positions`. With zeros everywhere but in the variants, heads, key_heads and tokens it is a plan of prefill.
typedef struct attune_mpi_planning {
    size_t size;                            ///< sizeof(attune_mpi_planning); 0 stands for the struct's first version
    const attune_variant* const* variants;  ///< shards, which get one layout
    size_t variant_count;
    const double* weights;                       ///< the calls of each of them; null: one of each
    int64_t batches, heads, key_heads;           ///< 0: 1
    int64_t tokens;                              ///< of all ranks together
    int64_t queries;                             ///< of decode, on every rank; 0: prefill
    double flops, bytes, latency, merged, read;  ///< of a rank in a second, as attune::mpi::rates; 0: the defaults
    const int32_t* positions;                    ///< of this rank, for ATTUNE_MPI_OWN
    size_t position_count;
    int32_t depth, value_depth;  ///< 0: those of the first kernel
    int32_t element;             ///< ATTUNE_F32, ... of q, k and v; 0: that of the first kernel
    int32_t layout;              ///< ATTUNE_MPI_BEST, ...
    int32_t stages;              ///< of a call; 0: as many as the cost model says
    int32_t head_parts;   ///< ranks that share the heads of their tokens; 0: as many as the cost model says; 1: none
    int32_t reserved[6];  ///< zeros
} attune_mpi_planning;

/// A layout for the calls of some shards. Arguments are what their masks depend on, such as a table of documents:
/// whole, and on each rank. Of `options`, `deterministic` makes results the same bits on any number of ranks. `*layout`
/// is null where it is not ATTUNE_OK.
attune_status attune_mpi_plan(attune_mpi_context* context, const attune_mpi_planning* what,
                              const attune_argument* arguments, size_t count, const attune_options* options,
                              attune_mpi_layout** layout) ATTUNE_NOEXCEPT;
/// Row i of this rank's q, k, v and outputs is the token positions[i] of the whole; in decode, of its k and v. They
/// live as long as the layout.
attune_status attune_mpi_positions(const attune_mpi_layout* layout, const int32_t** positions,
                                   size_t* count) ATTUNE_NOEXCEPT;
/// A plan in words: `capacity` and `length` as of attune_explain.
attune_status attune_mpi_explain(const attune_mpi_layout* layout, char* text, size_t capacity,
                                 size_t* length) ATTUNE_NOEXCEPT;
/// Null is nothing. Prepared calls have a copy.
void attune_mpi_free_layout(attune_mpi_layout* layout) ATTUNE_NOEXCEPT;

/// What one call has sent and received, on this rank.
typedef struct attune_mpi_traffic {
    int64_t bytes_sent, bytes_received;
    int64_t messages_sent, messages_received;
} attune_mpi_traffic;

/// One attention call of all ranks by a shard: inputs over queries or keys, and outputs, have this rank's rows, and all
/// else is whole on every rank. In decode only inputs over keys have this rank's rows. "lengths" are kv_lengths of the
/// whole; positions and earlier results are not passed. `traffic` may be null.
attune_status attune_mpi_run(attune_mpi_context* context, const attune_mpi_layout* layout,
                             const attune_variant* variant, const attune_argument* arguments, size_t count,
                             const attune_options* options, attune_mpi_traffic* traffic) ATTUNE_NOEXCEPT;

/// Takes what attune_mpi_run takes and returns the call instead of making it; `*call` is null where it is not
/// ATTUNE_OK. The memory of the tensors, what `options` point to, and the kernels outlive the call; shapes, names and
/// the structs themselves need not.
attune_status attune_mpi_prepare(attune_mpi_context* context, const attune_mpi_layout* layout,
                                 const attune_variant* variant, const attune_argument* arguments, size_t count,
                                 const attune_options* options, attune_mpi_call** call) ATTUNE_NOEXCEPT;
/// Makes the call with what the tensors hold now. The ranks agree on nothing more: a refusal of one rank is
/// ATTUNE_FAILED on all of them.
attune_status attune_mpi_run_prepared(attune_mpi_call* call, attune_mpi_traffic* traffic) ATTUNE_NOEXCEPT;
/// Null is nothing.
void attune_mpi_free_call(attune_mpi_call* call) ATTUNE_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
