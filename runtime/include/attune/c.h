#ifndef ATTUNE_C_H
#define ATTUNE_C_H
/// Compiled variants, called from C or from any language that calls C: Rust, Go, Julia, Python's ctypes. Plain C99.
///
///     const int64_t shape[] = {2, 8, 1024, 64};
///     attune_argument list[] = {
///         attune_tensor_argument("q", attune_dense(q, ATTUNE_F32, 4, shape)), ...
///         attune_tensor_argument("out", attune_dense(out, ATTUNE_F32, 4, shape))};
///     if (attune_run(my_alibi_variant(), list, 4, NULL) != ATTUNE_OK) puts(attune_error_text());
///
/// A library of kernels (attune_add_variant) has one function for each variant, `my_alibi_variant` for my::alibi.
/// <target>.h declares it, with a struct of the variant's arguments by name. Everything else is here, and takes
/// arguments by name, so that a variant which gains an input keeps its ABI.
///
/// Nothing is copied, kept or freed: tensors are views, and the arguments of a call need only live until the call
/// returns. All functions may be called from several threads at once. They throw no exceptions and install no signal
/// handlers, and the threads that they start block all signals. Everything is checked before anything is written, as by
/// attune::run (attune/runtime/run.hpp says what a call takes).
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#define ATTUNE_NOEXCEPT noexcept
#else
#define ATTUNE_NOEXCEPT
#endif

/// The version of the functions and structs below. It changes only if programs compiled for an older one would no
/// longer work.
#define ATTUNE_C_VERSION 1
int32_t attune_c_version(void) ATTUNE_NOEXCEPT;

/// The version of attune, such as "0.1.0".
const char* attune_version(void) ATTUNE_NOEXCEPT;

typedef int32_t attune_status;
enum {
    ATTUNE_OK = 0,
    ATTUNE_REFUSED = 1,    ///< the arguments do not make a call; nothing was written
    ATTUNE_NO_MEMORY = 2,  ///< there was no memory to prepare the call; nothing was written
    ATTUNE_FAILED = 3      ///< the kernel began and could not finish; its outputs are undefined
};

/// One sentence about the last call in this thread that returned anything but ATTUNE_OK: "attune: expected ..., got
/// ...; try ...". Never null; valid until the next call of this thread.
const char* attune_error_text(void) ATTUNE_NOEXCEPT;

enum {
    ATTUNE_F32 = 1,
    ATTUNE_BF16 = 2,
    ATTUNE_F16 = 3,
    ATTUNE_I32 = 4,
    ATTUNE_U8 = 5,
    ATTUNE_BOOL = 6,  ///< a byte, zero is false
    ATTUNE_I8 = 7,
    ATTUNE_F8_E4M3 = 8,  ///< float8_e4m3fn
    ATTUNE_F8_E5M2 = 9,
    ATTUNE_I64 = 10,  ///< integers of 32 bits, stored in 64; a call with one that does not fit is refused
    ATTUNE_I16 = 11
};

enum {
    ATTUNE_HOST = 0,
    ATTUNE_CUDA = 1,   ///< `data` is an address of a CUDA device, as of cudaMalloc: a CUdeviceptr
    ATTUNE_OPENCL = 2  ///< `data` is a cl_mem
};

/// A view of the caller's memory.
typedef struct attune_tensor {
    void* data;
    const int64_t* shape;    ///< outermost axis first: (batch, head, query, depth)
    const int64_t* strides;  ///< in elements; null: dense
    int32_t rank;            ///< at most 8
    int32_t element;         ///< ATTUNE_F32, ...
    int32_t read_only;       ///< not zero: refused as an output
    int16_t memory;          ///< ATTUNE_HOST, ... (attune_on_device)
    int16_t device;          ///< for a GPU's memory: 1 + the GPU's index, or 0 if it is not known
} attune_tensor;

enum { ATTUNE_TENSOR = 0, ATTUNE_INTEGER = 1, ATTUNE_REAL = 2, ATTUNE_BOOLEAN = 3 };

/// One argument of a call, by the name that the formula gives it: "q", "out"; or "kv_lengths", "cu_seqlens_q".
typedef struct attune_argument {
    const char* name;
    int32_t kind;          ///< ATTUNE_TENSOR, or a number that the formula declares as a scalar
    int32_t reserved;      ///< zero
    int64_t integer;       ///< for ATTUNE_INTEGER; 0 or 1 for ATTUNE_BOOLEAN
    double real;           ///< for ATTUNE_REAL
    attune_tensor tensor;  ///< for ATTUNE_TENSOR
} attune_argument;

/// The application's own thread pool: `run` must call task(tasks, 0) ... task(tasks, count - 1), each once, on at most
/// `threads` threads at a time, and return when all are done.
typedef void (*attune_task)(void* tasks, int32_t index);
typedef void (*attune_parallel_for)(void* state, int32_t count, int32_t threads, attune_task task, void* tasks);

/// How a call is to run; null or all zeros for the defaults.
typedef struct attune_options {
    size_t size;            ///< sizeof(attune_options); 0 stands for the struct of C version 1
    int32_t threads;        ///< the most threads; 0: as attune_set_threads says
    int32_t deterministic;  ///< not zero: the bits of results do not depend on the batch; on the number of threads they
                            ///< never depend
    const char* target;     ///< the ISA level, "cuda" or "opencl"; null: where the tensors lie, else the environment's
                            ///< ATTUNE_TARGET, else the best level that this CPU runs
    attune_parallel_for
        pool;  ///< runs the tasks of this call; null: what attune_set_parallel_for was given, else attune's threads
    void* pool_state;  ///< its first argument
    /* Of kernels for a GPU, and only read where `size` covers them. */
    int32_t device;  ///< 1 + the GPU's index; 0: where the tensors say that they lie, else that of the context, else
                     ///< the first
    int32_t asynchronous;  ///< not zero: with all outputs on the device the call returns once the kernel is queued.
                           ///< Inputs in pinned host memory must not change before it is done
    void* context;  ///< a CUcontext or cl_context; null: the thread's current one in CUDA if it is of that device, else
                    ///< the device's primary one; attune's own in OpenCL
    void* stream;   ///< a CUstream or cl_command_queue of that context; null: CUDA's default stream, attune's own queue
    int32_t checked;  ///< not zero: every index that is read from a tensor is checked, as by attune::options::checked
    int32_t reserved[3];  ///< zeros
} attune_options;

/// A compiled variant, as `<variant>_variant()` returns it. It lives as long as its library.
typedef struct attune_variant attune_variant;

/// In a shared library of kernels: the names of its variants as C spells them ("my_alibi"), ended by a null. The
/// function of each is `<name>_variant`.
const char* const* attune_variants(void) ATTUNE_NOEXCEPT;

/// Computes a variant. Arguments in any order.
attune_status attune_run(const attune_variant* variant, const attune_argument* arguments, size_t count,
                         const attune_options* options) ATTUNE_NOEXCEPT;

/// A call that is made many times, as of attune::prepare.
typedef struct attune_call attune_call;
/// Finds the arguments by their names, checks shapes, types, strides, pointers and overlap as attune_run does, and
/// chooses the kernel. Names, shapes and options are copied, the target's name among them; the tensors' memory, and the
/// pool's state, context and stream, must outlive the call. `*call` is null unless ATTUNE_OK is returned. Kernels of an
/// attune without this function are ATTUNE_REFUSED.
attune_status attune_prepare(const attune_variant* variant, const attune_argument* arguments, size_t count,
                             const attune_options* options, attune_call** call) ATTUNE_NOEXCEPT;
/// Makes the call, this time with other tensors and numbers in place of some, by name: none, the keys and values of
/// another layer, a longer sequence. A tensor must have the shape, strides, type and memory of the one that it
/// replaces; in a call with cu_seqlens_q it may have any that attune_run takes. Another tensor is ATTUNE_REFUSED, and
/// nothing is written. Several threads may each pass their own.
attune_status attune_run_prepared(const attune_call* call, const attune_argument* others, size_t count) ATTUNE_NOEXCEPT;
/// No thread may be in the call. Null is none.
void attune_free_call(attune_call* call) ATTUNE_NOEXCEPT;

/// Waits for the kernels that asynchronous calls with such options have queued. Returns ATTUNE_FAILED if one of them
/// failed, ATTUNE_REFUSED for options that no call could have, and for kernels of an attune without this function.
attune_status attune_synchronize(const attune_variant* variant, const attune_options* options) ATTUNE_NOEXCEPT;

/// Answers as JSON, in UTF-8: what a call with these arguments would do (outputs may be left out); the kernels that are
/// linked for a variant and whether this CPU runs them; a variant's formula, inputs and outputs. At most `capacity`
/// bytes are written to `json`, a terminating zero included. `length`, unless it is null, becomes the length of the
/// whole text without the zero.
attune_status attune_explain(const attune_variant* variant, const attune_argument* arguments, size_t count,
                             const attune_options* options, char* json, size_t capacity,
                             size_t* length) ATTUNE_NOEXCEPT;
/// The states of a call's blocks of (queries, keys), as JSON in the same way: the numbers of blocks, their sizes, and
/// `blocks`, a digit for each (batch, head, query block, key block): 0 skipped, 1 visited, 2 visited and wholly
/// visible, so that no mask is computed.
attune_status attune_blocks(const attune_variant* variant, const attune_argument* arguments, size_t count,
                            const attune_options* options, char* json, size_t capacity, size_t* length) ATTUNE_NOEXCEPT;
attune_status attune_kernels(const attune_variant* variant, char* json, size_t capacity,
                             size_t* length) ATTUNE_NOEXCEPT;
attune_status attune_describe(const attune_variant* variant, char* json, size_t capacity,
                              size_t* length) ATTUNE_NOEXCEPT;

/// The threads of all later calls whose options name no number. 0 returns to the default: the environment's
/// ATTUNE_THREADS, else one for each CPU that the process may use.
attune_status attune_set_threads(int32_t count) ATTUNE_NOEXCEPT;
attune_status attune_threads(int32_t* count) ATTUNE_NOEXCEPT;

/// Uses the application's own thread pool instead of attune's, for all calls whose options have none. A null `run`
/// returns to attune's pool.
attune_status attune_set_parallel_for(attune_parallel_for run, void* state) ATTUNE_NOEXCEPT;

/// Threads that the application already runs side by side, such as those of an OpenMP region; as attune::team. One team
/// serves any number of regions, one at a time.
typedef struct attune_team attune_team;
/// Returns in a worker once all workers have called it, any number of times; what was written before is seen behind it.
typedef void (*attune_barrier)(void* state);
/// `*team` is null unless ATTUNE_OK is returned. Refused: fewer than 1 and more than 4096 workers, and several without
/// a barrier. `state` is the barrier's argument.
attune_status attune_make_team(int32_t workers, attune_barrier barrier, void* state,
                               attune_team** team) ATTUNE_NOEXCEPT;
/// To be called by every worker, with its number from 0. Worker 0 runs calls(state): the calls that it makes of this
/// library's variants use all workers, unless their options say otherwise. The others run the tasks of these calls, and
/// return when it has returned; they may pass null. Worker 0 gets what `calls` returns, or ATTUNE_REFUSED if it is
/// null. A number that no worker has is ATTUNE_REFUSED, and that thread meets no barrier.
attune_status attune_run_team(attune_team* team, int32_t worker, attune_status (*calls)(void* state),
                              void* state) ATTUNE_NOEXCEPT;
/// No thread may be in the team. Null is none.
void attune_free_team(attune_team* team) ATTUNE_NOEXCEPT;

/// DLPack (version 1). `managed` is a DLManagedTensor, or a DLManagedTensorVersioned if `versioned` is not zero, in
/// memory that the CPU reads, of CUDA, or in an OpenCL buffer. The view refers to its memory, shape and strides and
/// does not own it: the caller keeps it and deletes it after the calls. Refused: other devices, an offset into an
/// OpenCL buffer, element types that attune does not have, vectors, more than 8 axes, another major version.
attune_status attune_tensor_from_dlpack(const void* managed, int32_t versioned, attune_tensor* tensor) ATTUNE_NOEXCEPT;
/// The same as an argument of a call; errors call it by its name.
attune_status attune_argument_from_dlpack(const char* name, const void* managed, int32_t versioned,
                                          attune_argument* argument) ATTUNE_NOEXCEPT;

/// The other direction: a new DLManagedTensor (or DLManagedTensorVersioned) that refers to the tensor's memory. Its
/// consumer calls its deleter, which calls release(owner) unless `release` is null. A read-only tensor needs the
/// versioned form, since the other cannot mark it. A tensor in a GPU's memory must say which GPU's.
attune_status attune_tensor_to_dlpack(const attune_tensor* tensor, int32_t versioned, void (*release)(void* owner),
                                      void* owner, void** managed) ATTUNE_NOEXCEPT;

static inline attune_tensor attune_dense(void* data, int32_t element, int32_t rank, const int64_t* shape) {
    attune_tensor tensor;
    memset(&tensor, 0, sizeof tensor);
    tensor.data = data;
    tensor.shape = shape;
    tensor.rank = rank;
    tensor.element = element;
    return tensor;
}

/// Whether an optional tensor of a struct of arguments was filled in: all zeros say that it was left out.
static inline int attune_is_given(const attune_tensor* tensor) {
    return tensor->data || tensor->shape || tensor->strides || tensor->rank || tensor->element || tensor->read_only ||
           tensor->memory || tensor->device;
}

/// The same view, of a GPU's memory: attune_on_device(attune_dense(...), ATTUNE_CUDA, 0).
static inline attune_tensor attune_on_device(attune_tensor tensor, int16_t memory, int16_t device) {
    tensor.memory = memory;
    tensor.device = device;
    ++tensor.device; /* 0 says that none is named */
    return tensor;
}

static inline attune_argument attune_tensor_argument(const char* name, attune_tensor tensor) {
    attune_argument argument;
    memset(&argument, 0, sizeof argument);
    argument.name = name;
    argument.tensor = tensor;
    return argument;
}

static inline attune_argument attune_integer_argument(const char* name, int64_t value) {
    attune_argument argument;
    memset(&argument, 0, sizeof argument);
    argument.name = name;
    argument.kind = ATTUNE_INTEGER;
    argument.integer = value;
    return argument;
}

static inline attune_argument attune_real_argument(const char* name, double value) {
    attune_argument argument;
    memset(&argument, 0, sizeof argument);
    argument.name = name;
    argument.kind = ATTUNE_REAL;
    argument.real = value;
    return argument;
}

static inline attune_argument attune_boolean_argument(const char* name, int value) {
    attune_argument argument = attune_integer_argument(name, value != 0);
    argument.kind = ATTUNE_BOOLEAN;
    return argument;
}

#ifdef __cplusplus
}
#endif
#endif
