#include "operation.hpp"

#include "arguments.hpp"
#include "variants.hpp"

#include <attune/c.h>
#include <attune/runtime.hpp>
#include ATTUNE_GGML_KERNELS
#include ATTUNE_GGML_CODES

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

namespace attune::ggml {
namespace {

/// The operator's tensors and numbers, by the names that ggml.h gives them.
struct operation {
    explicit operation(const ggml_tensor& node)
        : q(*node.src[0]), k(*node.src[1]), v(*node.src[2]), mask(node.src[3]), sinks(node.src[4]), out(node) {
        float numbers[3];
        std::memcpy(numbers, node.op_params, sizeof numbers);
        scale = numbers[0], max_bias = numbers[1], softcap = numbers[2];
    }
    const ggml_tensor &q, &k, &v;
    const ggml_tensor *mask, *sinks;
    const ggml_tensor& out;
    float scale, max_bias, softcap;
};

/// The variants for one way in which keys and values lie.
struct family {
    kernel_list (*kernels)();                    ///< of one of them; all have the same types and depths
    const attune_variant* (*functions[2][2])();  ///< whether the mask is read, whether scores are capped
};
const family plain{attune::kernels<attention>,
                   {{attune_ggml_attention_variant, attune_ggml_capped_variant},
                    {attune_ggml_masked_variant, attune_ggml_masked_capped_variant}}};
const family of_q8_0{attune::kernels<q8_0::attention>,
                     {{attune_ggml_q8_0_attention_variant, attune_ggml_q8_0_capped_variant},
                      {attune_ggml_q8_0_masked_variant, attune_ggml_q8_0_masked_capped_variant}}};
const family of_q4_0{attune::kernels<q4_0::attention>,
                     {{attune_ggml_q4_0_attention_variant, attune_ggml_q4_0_capped_variant},
                      {attune_ggml_q4_0_masked_variant, attune_ggml_q4_0_masked_capped_variant}}};

/// A type of keys and values. Codes lie in blocks of 32 channels, behind an f16; `bytes` holds the codes of a block.
struct cache_type {
    ggml_type type;
    const family& variants;
    element_type element;  ///< of the keys, or of their codes
    std::int64_t bytes;    ///< 0: no codes
};
constexpr std::int64_t channels = 32;
const cache_type cache_types[] = {
    {GGML_TYPE_F16, plain, element_type::f16, 0},    {GGML_TYPE_BF16, plain, element_type::bf16, 0},
    {GGML_TYPE_F32, plain, element_type::f32, 0},    {GGML_TYPE_Q8_0, of_q8_0, element_type::i8, 32},
    {GGML_TYPE_Q4_0, of_q4_0, element_type::u8, 16},
};

const cache_type* type_of(const operation& op) {
    const auto* const found = std::ranges::find(cache_types, op.k.type, &cache_type::type);
    return found == std::end(cache_types) || op.v.type != op.k.type ? nullptr : found;
}

/// Whether this CPU runs a kernel of the type and depths, for any number of queries.
bool has_kernel(const cache_type& of, std::int64_t depth, std::int64_t value_depth) {
    static const auto lists = [] {
        std::vector<kernel_list> made;
        for (const cache_type& each : cache_types) made.push_back(each.variants.kernels());
        return made;
    }();
    return std::ranges::any_of(lists[static_cast<std::size_t>(&of - cache_types)].entries, [&](const auto& kernel) {
        return kernel.missing.empty() && kernel.shapes == "prefill" && (of.bytes || kernel.key == of.element) &&
               kernel.depth == depth && kernel.value_depth == value_depth;
    });
}

/// Rows are dense, strides whole elements or blocks, and what one head reads is no longer than an index may be.
bool is_indexable(const ggml_tensor& tensor) {
    constexpr std::uint64_t longest = std::numeric_limits<std::int32_t>::max();
    const std::size_t size = ggml_type_size(tensor.type);
    if (tensor.nb[0] != size) return false;
    for (int axis = 0; axis < GGML_MAX_DIMS; ++axis)
        if (tensor.nb[axis] % size != 0 || static_cast<std::uint64_t>(tensor.ne[axis]) > longest) return false;
    const auto bytes = static_cast<std::uint64_t>(tensor.ne[1]) * tensor.nb[1];
    return bytes <= longest && static_cast<std::uint64_t>(tensor.ne[2]) * tensor.nb[2] <= longest * size;
}

/// ggml has the innermost axis first: q, k and v are (depth, query or key, head, batch), out is (depth, head, query,
/// batch).
void add(arguments& list, const char* name, element_type element, const ggml_tensor& tensor, int head = 2,
         int row = 1) {
    const auto stride = [&](int axis) { return static_cast<std::int64_t>(tensor.nb[axis] / tensor.nb[0]); };
    list.tensor(name, static_cast<std::int32_t>(element), tensor.data,
                {tensor.ne[3], tensor.ne[head], tensor.ne[row], tensor.ne[0]},
                {stride(3), stride(head), stride(row), 1});
}

/// The scales of blocks, then the codes: the same memory as two tensors, whose strides are whole blocks.
void add_blocks(arguments& list, const char* scales, const char* codes, const cache_type& type,
                const ggml_tensor& tensor) {
    constexpr std::int64_t half = 2;
    const auto stride = [&](int axis, std::int64_t size) { return static_cast<std::int64_t>(tensor.nb[axis]) / size; };
    const std::int64_t blocks = tensor.ne[0] / channels;
    list.tensor(scales, ATTUNE_F16, tensor.data, {tensor.ne[3], tensor.ne[2], tensor.ne[1], blocks},
                {stride(3, half), stride(2, half), stride(1, half), stride(0, half)});
    list.tensor(codes, static_cast<std::int32_t>(type.element), static_cast<std::uint8_t*>(tensor.data) + half,
                {tensor.ne[3], tensor.ne[2], tensor.ne[1], blocks, type.bytes},
                {stride(3, 1), stride(2, 1), stride(1, 1), stride(0, 1), 1});
}

void add_cache(arguments& list, const cache_type& type, const ggml_tensor& k, const ggml_tensor& v) {
    if (type.bytes) {
        add_blocks(list, "k_scales", "k_codes", type, k);
        add_blocks(list, "v_scales", "v_codes", type, v);
    } else {
        add(list, "k", type.element, k);
        add(list, "v", type.element, v);
    }
}

/// A power of two for each head, as ggml has it: of the first heads, whose number is a power of two, then those
/// between.
void find_slopes(const operation& op, std::vector<float>& slopes) {
    if (op.max_bias <= 0) return slopes.assign(1, 1.0f);
    const auto heads = static_cast<std::size_t>(op.q.ne[2]), first = std::bit_floor(heads);
    const float step = op.max_bias / static_cast<float>(first);
    slopes.resize(heads);
    for (std::size_t head = 0; head < heads; ++head)
        slopes[head] = head < first ? std::exp2(-step * static_cast<float>(head + 1))
                                    : std::exp2(-step * (static_cast<float>(head - first) + 0.5f));
}

/// Of an operation without a mask each query sees all keys: one row stands for all.
void find_visible_keys(const operation& op, visible_keys& found) {
    if (op.mask) {
        const auto stride = [&](int axis) { return static_cast<std::int64_t>(op.mask->nb[axis] / op.mask->nb[0]); };
        return find_visible_keys({static_cast<const std::uint16_t*>(op.mask->data), op.mask->ne[3], op.q.ne[1],
                                  op.k.ne[1], stride(3), stride(1)},
                                 found);
    }
    found.first.assign(1, 0);
    found.end.assign(1, static_cast<std::int32_t>(op.k.ne[1]));
    found.intervals = true;
}

#ifdef _OPENMP
/// ggml's own threads, where it was built with OpenMP: a process has one pool of them, and they spin for a while after
/// ggml's nodes. Threads beside them would share their CPUs.
void run_tasks(void*, std::int32_t count, std::int32_t threads, attune_task task, void* tasks) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (std::int32_t i = 0; i < count; ++i) task(tasks, i);
}
#else
constexpr attune_parallel_for run_tasks = nullptr;  // attune's own threads
#endif

bool is_supported_mask(const operation& op) {
    const ggml_tensor& mask = *op.mask;
    const auto read =
        static_cast<double>(op.q.ne[3]) * static_cast<double>(mask.ne[1]) * static_cast<double>(mask.ne[0]);
    return read <= std::numeric_limits<std::int32_t>::max() && mask.type == GGML_TYPE_F16 && is_indexable(mask) &&
           mask.ne[0] >= op.k.ne[1] && mask.ne[1] >= op.q.ne[1] && mask.ne[2] == 1 &&
           (mask.ne[3] == 1 || mask.ne[3] == op.q.ne[3]);
}

}  // namespace

bool is_supported(const ggml_tensor& node) {
    if (node.op != GGML_OP_FLASH_ATTN_EXT) return false;
    const operation op(node);
    const cache_type* const type = type_of(op);
    if (!type || op.q.type != GGML_TYPE_F32 || !has_kernel(*type, op.q.ne[0], op.v.ne[0])) return false;
    for (const ggml_tensor* each : {&op.q, &op.k, &op.v, &op.out})
        if (!is_indexable(*each) || each->ne[3] != op.q.ne[3]) return false;
    if (op.k.ne[1] != op.v.ne[1] || op.k.ne[2] != op.v.ne[2] || op.q.ne[2] % op.k.ne[2] != 0) return false;
    if (op.sinks && (op.sinks->type != GGML_TYPE_F32 || op.sinks->ne[0] != op.q.ne[2])) return false;
    return !op.mask || is_supported_mask(op);
}

std::string compute(const ggml_tensor& node, int threads, scratch& memory) {
    if (!is_supported(node)) return "attune: expected an operation that supports_op takes, got another";
    if (ggml_is_empty(&node)) return {};
    const operation op(node);
    find_visible_keys(op, memory.visible);
    find_slopes(op, memory.slopes);
    const bool reads_mask = !memory.visible.intervals, caps = op.softcap != 0;
    const cache_type& type = *type_of(op);

    arguments list;
    add(list, "q", element_type::f32, op.q);
    add_cache(list, type, op.k, op.v);
    const std::int64_t batches = op.mask ? op.mask->ne[3] : 1, rows = op.mask ? op.q.ne[1] : 1;
    list.tensor("first_key", ATTUNE_I32, memory.visible.first.data(), {batches, rows}, {rows, 1});
    list.tensor("end_key", ATTUNE_I32, memory.visible.end.data(), {batches, rows}, {rows, 1});
    float none = -std::numeric_limits<float>::infinity();
    list.tensor("sink", ATTUNE_F32, op.sinks ? op.sinks->data : &none, {op.sinks ? op.q.ne[2] : 1}, {1});
    list.number("scale", static_cast<double>(op.scale));
    if (caps) list.number("cap", static_cast<double>(op.softcap));
    if (reads_mask) {
        const auto stride = [&](int axis) { return static_cast<std::int64_t>(op.mask->nb[axis] / op.mask->nb[0]); };
        list.tensor("mask_values", ATTUNE_F16, op.mask->data, {batches, rows, op.k.ne[1]}, {stride(3), stride(1), 1});
        list.tensor("slope", ATTUNE_F32, memory.slopes.data(), {static_cast<std::int64_t>(memory.slopes.size())}, {1});
    }
    add(list, "out", element_type::f32, op.out, 1, 2);

    attune_options how{};
    how.size = sizeof how;
    how.threads = threads;
    how.pool = run_tasks;
    const attune_variant* const variant = type.variants.functions[reads_mask][caps]();
    return attune_run(variant, list.data(), list.size(), &how) == ATTUNE_OK ? std::string() : attune_error_text();
}

}  // namespace attune::ggml
