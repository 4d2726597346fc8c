#include "kernel/tensor_schedule.hpp"

#include "analysis/narrow_rows.hpp"
#include "analysis/plan.hpp"
#include "base/formatting.hpp"
#include "kernel/gpu_schedule.hpp"
#include "kernel/shared_memory.hpp"

#include <attune/ir/projections.hpp>

#include <algorithm>
#include <array>

namespace attune::generators::inline kernel {
namespace {

/// Whether elements of a tensor need more than elements of others at their own places, such as a projection or a norm.
bool is_made_by_sums(const graph_ir& graph, int tensor) {
    if (input_of_rows(graph, tensor) >= 0) return false;
    const std::vector<bool> made = under(graph, {graph.nodes[static_cast<std::size_t>(tensor)].arguments[0]});
    for (std::size_t n = 0; n < made.size(); ++n) {
        const operation op = graph.nodes[n].op;
        if (made[n] && (family_of(op) == family::sums || op == operation::tokens || is_formed(op))) return true;
    }
    return false;
}

/// Whether a formula makes a tensor of rows of f32, whose digits a rounding to 16 bits would lose; tables beside the
/// rows, such as sines and scales, may be of f32.
bool is_made_of_f32(const kernel_request& request, int tensor) {
    const graph_ir& graph = request.graph();
    if (input_of_rows(graph, tensor) >= 0) return false;
    const std::vector<bool> made = under(graph, {graph.nodes[static_cast<std::size_t>(tensor)].arguments[0]});
    for (std::size_t n = 0; n < made.size(); ++n) {
        if (!made[n] || graph.nodes[n].op != operation::input) continue;
        const input_declaration& input = graph.inputs[static_cast<std::size_t>(graph.nodes[n].input)];
        if (has_dense_rows(input) && element_of(input, request.types) == element_type::f32) return true;
    }
    return false;
}

/// Why the formula is not one softmax of products whose weights are added up and weigh values; empty if it is.
std::string missing_of_formula(const kernel_request& request) {
    const plan& core = request.core();
    const auto is_of_rows = [](kind what) { return what == kind::output || what == kind::row; };
    if (request.facts->gradient) return "it is a gradient";
    if (!core.has_core() || core.weights_by != statistic::softmax || core.weights < 0)
        return "it weighs values by no softmax";
    if (!core.others.empty()) return "it has several softmaxes";
    for (const int tensor : {core.query, core.key, core.value}) {
        if (tensor >= 0 && tensor != core.value && tensor_cores_take_codes(request)) continue;
        if (tensor < 0 || is_made_by_sums(request.graph(), tensor))
            return "queries, keys or values are computed by sums";
        if (request.tf32_products == 0 && is_made_of_f32(request, tensor))
            return "queries, keys or values are computed from rows of f32";
    }
    if (!core.further.empty()) return "a score has sums of products beside q * t(k)";
    if (std::ranges::any_of(core.summed_weights, [&](int node) { return node != core.statistic_node; }))
        return "it adds up weights of its own";
    if (core.weight_digits != 0) return "its weights may be rounded to integers";
    if (!std::ranges::all_of(core.outputs, is_of_rows)) return "it has outputs of pairs or tokens";
    return {};
}

}  // namespace

std::string no_tensor_cores_because(const kernel_request& request, shape_class shapes) {
    const element_type query = request.types.query;
    const auto [depth, value_depth] = request.depths;
    constexpr int step = gpu_tensor_prefill::channels_of_step, widest = 256;
    if (request.target->called() != "cuda") return fmt::format("the target is {}", request.target->name);
    if (std::string formula = missing_of_formula(request); !formula.empty()) return formula;
    const auto is_of_queries = [&](int tensor) {
        const int input = input_of_rows(request.graph(), tensor);  // what is computed is rounded to that of queries
        return input < 0 || element_of(request.graph().inputs[static_cast<std::size_t>(input)], request.types) == query;
    };
    const plan& core = request.core();
    const bool is_of_halves = query == element_type::bf16 || query == element_type::f16, is_of_f32 = !is_of_halves;
    if (!is_of_queries(core.query) || !is_of_queries(core.key) || !is_of_queries(core.value) ||
        (is_of_f32 && request.tf32_products == 0))
        return request.tf32_products == 0 ? "q, k and v are not all bf16 or all f16"
                                          : "q, k and v are not all bf16, all f16 or all f32";
    if (is_of_f32 && request.target->warpgroups) return "warpgroups multiply no f32";
    if (is_of_f32 && shapes == shape_class::decode) return "calls of few queries multiply f32 without them";
    if (depth % step != 0 || value_depth % step != 0 || depth > widest || value_depth > widest)
        return fmt::format("the depths, {}x{}, are not multiples of {} up to {}", depth, value_depth, step, widest);
    const auto fills_rows = [](int channels) { return channels == 64 || channels == 128; };
    if (request.target->warpgroups && (!fills_rows(depth) || !fills_rows(value_depth)))
        return fmt::format("the depths, {}x{}, are not 64 or 128, of which warpgroups make products", depth,
                           value_depth);
    return {};
}

bool tensor_cores_take_codes(const kernel_request& request) {
    const plan& core = request.core();
    constexpr int step = 32;
    if (core.query < 0 || core.key < 0 || request.depths.depth % step != 0 || request.target->warpgroups) return false;
    return std::ranges::all_of(std::array{core.query, core.key}, [&](int tensor) {
        const auto rows = narrow_rows_of(request.graph(), request.facts->depends, tensor);
        return rows && rows->of_8_bits();
    });
}

bool marks_tasks(const kernel_request& request) { return !request.finite; }

gpu_prefill schedule_of_marked_tasks(const kernel_request& request) {
    gpu_prefill s = default_gpu_prefill(request);
    if (!decodes(request.schedule)) return s;
    constexpr int down = 8;  // threads along queries; decode has no more queries than that
    s.query_block = std::min(s.query_block, blocks_of(request.schedule).query_block);
    s.query_tile = std::max(s.query_block / down, 1);
    return s;
}

std::string not_for_warpgroups(const gpu_tensor_prefill& s) {
    const int group = s.warps_of_group;
    if (s.tiles != 1) return fmt::format("tiles 1, of a warpgroup's 64 rows those of a warp, got {}", s.tiles);
    if (s.warps != group && s.warps != 2 * group)  // of more, registers are too few
        return fmt::format("warps {} or {}, got {}", group, 2 * group, s.warps);
    if (s.key_block != 64 && s.key_block != 128)
        return fmt::format("key_block 64 or 128, the columns of a warpgroup's product, got {}", s.key_block);
    return {};
}

gpu_tensor_prefill default_gpu_tensor_prefill(const kernel_request& request) {
    if (request.target->warpgroups) {
        gpu_tensor_prefill s{.warps = 2 * gpu_tensor_prefill::warps_of_group, .tiles = 1, .key_block = 128};
        if (estimated_shared_memory(s, request) > most_shared_memory(*request.target)) s.key_block = 64;
        return s;
    }
    const int widest = std::max(request.depths.depth, request.depths.value_depth);
    // Two tiles a warp halve the reads of shared memory for each product, as long as their sums fit registers. Weights
    // that are added up one by one, and not by a product with ones, take some registers more.
    const bool one_by_one = request.core().log_sum || request.core().weights != request.core().statistic_node;
    const bool is_of_f32 = request.types.query == element_type::f32;
    gpu_tensor_prefill s{.warps = 4, .tiles = widest <= (is_of_f32 ? 64 : 128) ? 2 : 1, .key_block = 32};
    if (is_of_f32)
        s.key_block = widest <= 128 ? 32 : 16;
    else if (widest <= 64 && !one_by_one)
        s.key_block = 128;
    else if (widest <= 128)  // of 64 keys, some kernels would spill registers in their loop
        s.key_block = widest > 96 || (widest > 64 && one_by_one) ? 48 : 64;
    while (s.key_block > 16 && estimated_shared_memory(s, request) > most_shared_memory(*request.target))
        s.key_block = (s.key_block - 1) / 32 * 16 + 16;  // 128, 64, 32, 16; 48, 32
    return s;
}

/// A warp alone: others would take further rows of the same keys, and few groups have more than 16 rows. There are
/// enough keys for the loads of several blocks of threads to keep an SM busy, and few enough for several blocks to fit.
gpu_tensor_decode default_gpu_tensor_decode(const kernel_request& request) {
    const int widest = std::max(request.depths.depth, request.depths.value_depth);
    return {.query_block = 16, .warps = 1, .key_block = widest <= 128 ? 64 : 32, .key_splits = 128};
}

gpu_tensor_prefill tensor_blocks_of(const schedule& s) {
    if (const auto* decode = std::get_if<gpu_tensor_decode>(&s)) return decode->of_split();
    return std::get<gpu_tensor_prefill>(s);
}

bool queries_in_memory(const gpu_tensor_prefill& s, const kernel_request& request) {
    const int most_of_row = request.types.query == element_type::f32 ? 64 : 256;  // channels
    return s.tiles > 1 || request.depths.depth > most_of_row;
}

int estimated_shared_memory(const gpu_tensor_prefill& s, const kernel_request& request) {
    constexpr int numbers_of_row = 24;  // statistics and tables
    const int rows = s.query_block(), depth = request.depths.depth;
    const int bytes = static_cast<int>(bytes_of(request.types.query));
    const int padding = request.target->warpgroups ? 0 : tensor_row_alignment;  // behind a row
    const int queries = queries_in_memory(s, request) ? bytes * rows * depth : 0;
    return queries + s.key_block * (bytes * (depth + request.depths.value_depth) + 2 * padding) +
           4 * numbers_of_row * (rows + s.key_block);
}

}  // namespace attune::generators::inline kernel
