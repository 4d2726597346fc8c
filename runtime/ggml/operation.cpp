#include "operation.hpp"

#include "variants.hpp"

#include <ggml-impl.h>
#include <attune/runtime.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>

namespace attune::ggml {
namespace {

using attune::detail::named_argument;
using attune::detail::table_of;

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

/// The variants for one way in which keys and values lie. All have kernels of the same types and depths.
struct family {
    using table = const kernel_table& (*)();
    table attention, biased;
    const kernel_list& (*kernels)();  ///< of the first
};
template <const auto& Graph> const kernel_list& kernels_of() {
    static const kernel_list found = kernels<Graph>();
    return found;
}
template <const auto& Attention, const auto& Biased>
inline constexpr family family_of{table_of<Attention>, table_of<Biased>, kernels_of<Attention>};
constexpr const family& plain = family_of<attention, biased>;
constexpr const family& of_q8_0 = family_of<q8_0::attention, q8_0::biased>;
constexpr const family& of_q4_0 = family_of<q4_0::attention, q4_0::biased>;

/// A type of keys and values. Codes lie in blocks of 32 channels, behind an f16; `bytes` holds the codes of a block.
struct cache_type {
    ggml_type type;
    const family& variants;
    element_type element;  ///< of the keys, or of their codes
    std::int64_t bytes;    ///< 0: no codes
    double smallest;       ///< multiply-adds from which the kernel gains more than a graph cut in two costs
};
constexpr std::int64_t channels = 32;
const cache_type cache_types[] = {
    {GGML_TYPE_F16, plain, element_type::f16, 0, 1e6},    {GGML_TYPE_BF16, plain, element_type::bf16, 0, 1e6},
    {GGML_TYPE_F32, plain, element_type::f32, 0, 1e6},    {GGML_TYPE_Q8_0, of_q8_0, element_type::i8, 32, 8e5},
    {GGML_TYPE_Q4_0, of_q4_0, element_type::u8, 16, 2e5},
};

const cache_type* type_of(const operation& op) {
    const auto* const found = std::ranges::find(cache_types, op.k.type, &cache_type::type);
    return found == std::end(cache_types) || op.v.type != op.k.type ? nullptr : found;
}

/// Whether this CPU runs a kernel of the type and depths, for any number of queries.
bool has_kernel(const cache_type& of, std::int64_t depth, std::int64_t value_depth) {
    return std::ranges::any_of(of.variants.kernels().entries, [&](const auto& kernel) {
        return kernel.missing.empty() && kernel.shapes == "prefill" && (of.bytes || kernel.key == of.element) &&
               kernel.depth == depth && kernel.value_depth == value_depth;
    });
}

std::optional<double> asked_smallest() {
    const char* const text = std::getenv("ATTUNE_GGML_SMALLEST");
    if (!text) return {};
    char* end = nullptr;
    const double number = std::strtod(text, &end);
    if (end != text && *end == '\0') return number;
    GGML_LOG_WARN("attune: expected a number of multiply-adds in ATTUNE_GGML_SMALLEST, got `%s`; try 0\n", text);
    return {};
}

/// ggml computes a short operation within a graph that is not cut.
bool is_short(const cache_type& of, const operation& op) {
    static const std::optional<double> asked = asked_smallest();
    double size = static_cast<double>(op.k.ne[1]) * static_cast<double>(op.q.ne[0] + op.v.ne[0]);
    for (const int axis : {1, 2, 3}) size *= static_cast<double>(op.q.ne[axis]);
    return size < asked.value_or(of.smallest);
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

using arguments = std::vector<named_argument>;

void add(arguments& list, std::string_view name, const tensor& view) {
    list.push_back({.name = name, .is = named_argument::form::view, .view = view});
}
void add(arguments& list, std::string_view name, double number) {
    list.push_back({.name = name, .is = named_argument::form::real, .real = number});
}

/// The stride of an axis, in elements of so many bytes.
std::int64_t stride(const ggml_tensor& of, int axis, std::size_t size) {
    return static_cast<std::int64_t>(of.nb[axis] / size);
}
std::int64_t stride(const ggml_tensor& of, int axis) { return stride(of, axis, of.nb[0]); }

/// ggml has the innermost axis first: q, k and v are (depth, query or key, head, batch), out is (depth, head, query,
/// batch).
tensor view_of(element_type element, const ggml_tensor& of, int head = 2, int row = 1) {
    const std::array shape{of.ne[3], of.ne[head], of.ne[row], of.ne[0]};
    const std::array strides{stride(of, 3), stride(of, head), stride(of, row), std::int64_t{1}};
    return {element, of.data, shape, strides};
}

/// The scales of blocks, then the codes: the same memory as two tensors, whose strides are whole blocks.
void add_blocks(arguments& list, std::string_view scales, std::string_view codes, const cache_type& type,
                const ggml_tensor& of) {
    constexpr std::size_t half = 2;
    const std::int64_t blocks = of.ne[0] / channels;
    const std::array shape{of.ne[3], of.ne[2], of.ne[1], blocks, type.bytes};
    const auto strides = [&](std::size_t size) {
        return std::array{stride(of, 3, size), stride(of, 2, size), stride(of, 1, size), stride(of, 0, size),
                          std::int64_t{1}};
    };
    const std::array of_scales = strides(half);
    add(list, scales, tensor(element_type::f16, of.data, std::span(shape).first(4), std::span(of_scales).first(4)));
    add(list, codes, tensor(type.element, static_cast<std::uint8_t*>(of.data) + half, shape, strides(1)));
}

void add_cache(arguments& list, const cache_type& type, const ggml_tensor& k, const ggml_tensor& v) {
    if (type.bytes) {
        add_blocks(list, "k_scales", "k_codes", type, k);
        add_blocks(list, "v_scales", "v_codes", type, v);
    } else {
        add(list, "k", view_of(type.element, k));
        add(list, "v", view_of(type.element, v));
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

/// In an operation without a mask each query sees all keys: one row stands for all.
void find_visible_keys(const operation& op, visible_keys& found) {
    if (op.mask) {
        return find_visible_keys({static_cast<const std::uint16_t*>(op.mask->data), op.mask->ne[3], op.q.ne[1],
                                  op.k.ne[1], stride(*op.mask, 3), stride(*op.mask, 1)},
                                 found);
    }
    found.first.assign(1, 0);
    found.end.assign(1, static_cast<std::int32_t>(op.k.ne[1]));
    found.intervals = true;
}

/// The cap and the mask; of an operation without a mask a 0 for all of it.
void add_bias(arguments& list, const operation& op, const std::vector<float>& slopes) {
    static constexpr std::uint16_t none = 0;
    const std::int64_t batches = op.mask ? op.mask->ne[3] : 1, rows = op.mask ? op.q.ne[1] : 1;
    const std::array shape{batches, rows, op.mask ? op.k.ne[1] : 1};
    const std::array strides{op.mask ? stride(*op.mask, 3) : 1, op.mask ? stride(*op.mask, 1) : 1, std::int64_t{1}};
    const void* const values = op.mask ? op.mask->data : &none;
    add(list, "mask_values", tensor(element_type::f16, values, shape, strides));
    add(list, "slope", tensor(slopes.data(), {static_cast<std::int64_t>(slopes.size())}));
    add(list, "cap", static_cast<double>(op.softcap));
}

/// ggml's own threads, where it was built with OpenMP: a process has one pool of them, and they spin for a while after
/// ggml's nodes. Threads beside them would share their CPUs.
const parallel_for* pool() {
#ifdef _OPENMP
    static const parallel_for made = [](int count, int threads, const std::function<void(int)>& task) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
        for (int i = 0; i < count; ++i) task(i);
    };
    return &made;
#else
    return nullptr;  // attune's own threads
#endif
}

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
    if (is_short(*type, op)) return false;
    for (const ggml_tensor* each : {&op.q, &op.k, &op.v, &op.out})
        if (!is_indexable(*each) || each->ne[3] != op.q.ne[3]) return false;
    if (op.k.ne[1] != op.v.ne[1] || op.k.ne[2] != op.v.ne[2] || op.q.ne[2] % op.k.ne[2] != 0) return false;
    if (op.sinks && (op.sinks->type != GGML_TYPE_F32 || op.sinks->ne[0] != op.q.ne[2])) return false;
    return !op.mask || is_supported_mask(op);
}

std::string compute(const ggml_tensor& node, int threads, scratch& memory) try {
    if (!is_supported(node)) return "attune: expected an operation that supports_op takes, got another";
    if (ggml_is_empty(&node)) return {};
    const operation op(node);
    find_visible_keys(op, memory.visible);
    find_slopes(op, memory.slopes);
    const cache_type& type = *type_of(op);
    const bool has_bias = !memory.visible.intervals || op.softcap != 0;

    arguments& list = memory.arguments;
    list.clear();
    add(list, "q", view_of(element_type::f32, op.q));
    add_cache(list, type, op.k, op.v);
    const std::int64_t batches = op.mask ? op.mask->ne[3] : 1, rows = op.mask ? op.q.ne[1] : 1;
    add(list, "first_key", tensor(memory.visible.first.data(), {batches, rows}));
    add(list, "end_key", tensor(memory.visible.end.data(), {batches, rows}));
    constexpr float none = -std::numeric_limits<float>::infinity();
    add(list, "sink", op.sinks ? tensor(static_cast<const float*>(op.sinks->data), {op.q.ne[2]}) : tensor(&none, {1}));
    add(list, "scale", static_cast<double>(op.scale));
    if (has_bias) add_bias(list, op, memory.slopes);
    add(list, "out", view_of(element_type::f32, op.out, 1, 2));
    attune::detail::call((has_bias ? type.variants.biased : type.variants.attention)(), list,
                         options{.threads = threads, .pool = pool()});
    return {};
} catch (const error& wrong) {
    return wrong.what();
}

}  // namespace attune::ggml
