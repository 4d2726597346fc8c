#include "operation.hpp"

#include "variants.hpp"

#include <attune/c.h>
#include <attune/runtime.hpp>
#include ATTUNE_GGML_KERNELS

#include <algorithm>
#include <array>
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

/// The variants for keys and values of one type.
struct variants {
    ggml_type type;
    element_type element;
    kernel_list (*kernels)();                    ///< of one of them; all have the same types and depths
    const attune_variant* (*functions[2][2])();  ///< whether the mask is read, whether scores are capped
};
const variants of_types[] = {
    {GGML_TYPE_F16,
     element_type::f16,
     attune::kernels<attention>,
     {{attune_ggml_attention_variant, attune_ggml_capped_variant},
      {attune_ggml_masked_variant, attune_ggml_masked_capped_variant}}},
};

const variants* variants_of(const operation& op) {
    const auto* const found = std::ranges::find(of_types, op.k.type, &variants::type);
    return found == std::end(of_types) || op.v.type != op.k.type ? nullptr : found;
}

/// Whether this CPU runs a kernel of the type and depths, for any number of queries.
bool has_kernel(const variants& of, std::int64_t depth, std::int64_t value_depth) {
    static const auto lists = [] {
        std::vector<kernel_list> made;
        for (const variants& each : of_types) made.push_back(each.kernels());
        return made;
    }();
    return std::ranges::any_of(lists[static_cast<std::size_t>(&of - of_types)].entries, [&](const auto& kernel) {
        return kernel.missing.empty() && kernel.shapes == "prefill" && kernel.key == of.element &&
               kernel.depth == depth && kernel.value_depth == value_depth;
    });
}

/// Rows are dense, strides are whole elements, and no part that one head reads reaches beyond what an index holds.
bool is_view(const ggml_tensor& tensor) {
    const std::size_t size = ggml_type_size(tensor.type);
    if (tensor.nb[0] != size) return false;
    std::uint64_t last = static_cast<std::uint64_t>(tensor.ne[0]);
    for (int axis = 1; axis < GGML_MAX_DIMS; ++axis)
        if (tensor.nb[axis] % size != 0 || tensor.ne[axis] > std::numeric_limits<std::int32_t>::max()) return false;
    last += static_cast<std::uint64_t>(tensor.ne[1]) * (tensor.nb[1] / size);
    return last <= std::numeric_limits<std::int32_t>::max();
}

/// ggml has the innermost axis first; `order` names its axes, outermost first.
template <std::size_t Rank> struct view {
    view(const char* name, std::int32_t element, const ggml_tensor& tensor, std::array<int, Rank> order) : name(name) {
        for (std::size_t axis = 0; axis < Rank; ++axis) {
            shape[axis] = tensor.ne[order[axis]];
            strides[axis] = static_cast<std::int64_t>(tensor.nb[order[axis]] / ggml_type_size(tensor.type));
        }
        argument = attune_tensor_argument(name, attune_dense(tensor.data, element, Rank, shape.data()));
        argument.tensor.strides = strides.data();
    }
    view(const view&) = delete;

    const char* name;
    std::array<std::int64_t, Rank> shape, strides;
    attune_argument argument;
};

/// As ggml has it: powers of two numbers, one for the first heads, whose number is a power of two, one between them for
/// the others.
void fill_slopes(const operation& op, std::vector<float>& slopes) {
    if (op.max_bias <= 0) {
        slopes.assign(1, 1.0f);
        return;
    }
    const auto heads = static_cast<std::size_t>(op.q.ne[2]), first = std::bit_floor(heads);
    slopes.resize(heads);
    for (std::size_t head = 0; head < heads; ++head)
        slopes[head] =
            head < first
                ? std::exp2(-op.max_bias * static_cast<float>(head + 1) / static_cast<float>(first))
                : std::exp2(-op.max_bias / 2 * static_cast<float>(2 * (head - first) + 1) / static_cast<float>(first));
}

void find_visible_keys(const operation& op, visible_keys& found) {
    if (!op.mask) {
        found.first.assign(1, 0), found.end.assign(1, static_cast<std::int32_t>(op.k.ne[1]));
        found.intervals = true;
        return;
    }
    const ggml_tensor& mask = *op.mask;
    constexpr std::size_t size = sizeof(std::uint16_t);
    find_visible_keys({static_cast<const std::uint16_t*>(mask.data), mask.ne[3], op.q.ne[1], op.k.ne[1],
                       static_cast<std::int64_t>(mask.nb[3] / size), static_cast<std::int64_t>(mask.nb[1] / size)},
                      found);
}

}  // namespace

bool is_supported(const ggml_tensor& node) {
    if (node.op != GGML_OP_FLASH_ATTN_EXT) return false;
    const operation op(node);
    const variants* const of = variants_of(op);
    if (!of || op.q.type != GGML_TYPE_F32 || !has_kernel(*of, op.q.ne[0], op.v.ne[0])) return false;
    if (op.k.ne[2] != op.v.ne[2] || op.q.ne[2] % op.k.ne[2] != 0) return false;
    if (op.k.ne[3] != op.q.ne[3] || op.v.ne[3] != op.q.ne[3]) return false;
    if (!is_view(op.q) || !is_view(op.k) || !is_view(op.v) || !is_view(op.out)) return false;
    if (op.mask) {
        const ggml_tensor& mask = *op.mask;
        if (mask.type != GGML_TYPE_F16 || !is_view(mask) || mask.ne[0] < op.k.ne[1] || mask.ne[1] < op.q.ne[1])
            return false;
        if (mask.ne[2] != 1 || (mask.ne[3] != 1 && mask.ne[3] != op.q.ne[3])) return false;
    }
    return !op.sinks || (op.sinks->type == GGML_TYPE_F32 && op.sinks->ne[0] == op.q.ne[2] && is_view(*op.sinks));
}

std::string compute(const ggml_tensor& node, int threads, scratch& memory) {
    const operation op(node);
    const variants* const of = variants_of(op);
    if (!of) return "attune: expected an operation that supports_op takes, got another";
    if (op.out.ne[1] * op.out.ne[2] * op.out.ne[3] == 0) return {};
    find_visible_keys(op, memory.visible);
    fill_slopes(op, memory.slopes);

    const bool reads_mask = !memory.visible.intervals, caps = op.softcap != 0;
    const view<4> q("q", ATTUNE_F32, op.q, {3, 2, 1, 0}), out("out", ATTUNE_F32, op.out, {3, 1, 2, 0});
    const auto element = static_cast<std::int32_t>(of->element);
    const view<4> k("k", element, op.k, {3, 2, 1, 0}), v("v", element, op.v, {3, 2, 1, 0});

    const std::int64_t batches = op.mask ? op.mask->ne[3] : 1, queries = op.mask ? op.q.ne[1] : 1;
    const std::int64_t rows[] = {batches, queries}, one[] = {1};
    const std::int64_t heads[] = {op.q.ne[2]}, slopes[] = {static_cast<std::int64_t>(memory.slopes.size())};
    float no_sink = -std::numeric_limits<float>::infinity();
    std::array<attune_argument, 11> list;
    std::size_t count = 0;
    const auto add = [&](const attune_argument& argument) { list[count++] = argument; };
    for (const attune_argument* each : {&q.argument, &k.argument, &v.argument, &out.argument}) add(*each);
    add(attune_tensor_argument("first_key", attune_dense(memory.visible.first.data(), ATTUNE_I32, 2, rows)));
    add(attune_tensor_argument("end_key", attune_dense(memory.visible.end.data(), ATTUNE_I32, 2, rows)));
    add(attune_tensor_argument("sink", op.sinks ? attune_dense(op.sinks->data, ATTUNE_F32, 1, heads)
                                                : attune_dense(&no_sink, ATTUNE_F32, 1, one)));
    add(attune_real_argument("scale", static_cast<double>(op.scale)));
    if (caps) add(attune_real_argument("cap", static_cast<double>(op.softcap)));
    std::int64_t mask_shape[3], mask_strides[3];
    if (reads_mask) {
        const ggml_tensor& mask = *op.mask;
        const std::int64_t shape[] = {mask.ne[3], op.q.ne[1], op.k.ne[1]};
        const std::int64_t strides[] = {static_cast<std::int64_t>(mask.nb[3] / 2),
                                        static_cast<std::int64_t>(mask.nb[1] / 2), 1};
        std::ranges::copy(shape, mask_shape), std::ranges::copy(strides, mask_strides);
        attune_tensor read = attune_dense(mask.data, ATTUNE_F16, 3, mask_shape);
        read.strides = mask_strides;
        add(attune_tensor_argument("mask_values", read));
        add(attune_tensor_argument("slope", attune_dense(memory.slopes.data(), ATTUNE_F32, 1, slopes)));
    }
    attune_options how{};
    how.size = sizeof how, how.threads = threads;
    const attune_status status = attune_run(of->functions[reads_mask][caps](), list.data(), count, &how);
    return status == ATTUNE_OK ? std::string() : attune_error_text();
}

}  // namespace attune::ggml
