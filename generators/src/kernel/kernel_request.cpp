#include "kernel/kernel_request.hpp"

#include "analysis/narrow_rows.hpp"
#include "analysis/plan.hpp"
#include "kernel/tensor_schedule.hpp"

#include <attune/ir/recurrence.hpp>

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace attune::generators::inline kernel {
namespace {

element_type floating_element(std::string_view name) {
    for (element_type e : {element_type::f32, element_type::bf16, element_type::f16})
        if (name == name_of(e)) return e;
    throw std::runtime_error("expected an element type among f32, bf16, f16, got \"" + std::string(name) + "\"");
}

}  // namespace

element_types element_types_from(std::string_view text) {
    if (text.find(':') == text.npos) {
        const element_type all = floating_element(text);
        return {all, all, all, all};
    }
    element_types types{};
    for (std::string_view rest = text; !rest.empty();) {
        const std::string_view part = rest.substr(0, rest.find(','));
        rest.remove_prefix(part.size() < rest.size() ? part.size() + 1 : part.size());
        const std::string_view tensor = part.substr(0, part.find(':'));
        element_type* const target = tensor == "q"     ? &types.query
                                     : tensor == "k"   ? &types.key
                                     : tensor == "v"   ? &types.value
                                     : tensor == "out" ? &types.output
                                                       : nullptr;
        if (!target || tensor.size() == part.size())
            throw std::runtime_error("expected element types as \"f32\" or \"q:f32,k:bf16,v:bf16\", got \"" +
                                     std::string(text) + "\"");
        *target = floating_element(part.substr(tensor.size() + 1));
    }
    if (types.query == element_type::any || types.key == element_type::any || types.value == element_type::any)
        throw std::runtime_error("expected an element type for each of q, k and v, got \"" + std::string(text) + "\"");
    if (types.output == element_type::any) types.output = types.query;
    return types;
}

element_type element_of(const input_declaration& input, const element_types& types) {
    if (input.element != element_type::any) return input.element;
    return input.name == "q"   ? types.query
           : input.name == "k" ? types.key
           : input.name == "v" ? types.value
                               : types.output;
}

std::string symbol_part(const element_types& types) {
    const auto name = [](element_type e) { return std::string(name_of(e)); };
    if (types == element_types{types.query, types.query, types.query, types.query}) return name(types.query);
    return "q_" + name(types.query) + "_k_" + name(types.key) + "_v_" + name(types.value) + "_out_" +
           name(types.output);
}

namespace {

/// Whether a gradient multiplies only rows of bf16 as they lie, and numbers of pairs times such rows.
bool multiplies_rows_of_bf16(const kernel_request& request) {
    const graph_ir& graph = request.graph();
    const gradient_plan& made = *request.facts->gradient;
    const auto node = [&](int n) -> const instruction& { return graph.nodes[n]; };
    const auto is_bf16 = [&](int tensor) {
        return node(tensor).op == operation::input &&
               element_of(graph.inputs[static_cast<std::size_t>(node(tensor).input)], request.types) ==
                   element_type::bf16;
    };
    const auto is_row = [&](int n, int channel) {
        return n >= 0 && is_plain_row(graph, n, channel) && is_bf16(node(n).arguments[0]);
    };
    const plan& core = request.core();
    if (core.contraction >= 0 && (!is_bf16(core.query) || !is_bf16(core.key))) return false;
    for (const further_contraction& each : contractions_under(graph, request.facts->depends, made.tiles)) {
        const int channel = static_cast<int>(node(each.index).integer);
        if (!is_row(each.of_query, channel) || !is_row(each.of_key, channel)) return false;
    }
    return !made.sums.empty() &&
           std::ranges::all_of(made.sums, [&](const gradient_sum& sum) { return is_row(sum.rows, sum.channel); });
}

bool may_pair_bf16(const kernel_request& request) {
    const depth_pair& depths = request.depths;
    if (request.facts->gradient)
        return depths.depth % 2 == 0 && depths.value_depth % 2 == 0 && multiplies_rows_of_bf16(request);
    const auto is_passed = [&](int tensor) {
        return tensor >= 0 && request.graph().nodes[tensor].op == operation::input;
    };
    const auto pairs_fit = [&](const plan* core) {
        return core->weights_by == statistic::softmax && is_passed(core->query) && is_passed(core->key) &&
               is_passed(core->value) && core->weights == core->statistic_node;
    };
    const auto& [query, key, value, output] = request.types;
    return query == element_type::bf16 && key == element_type::bf16 && value == element_type::bf16 &&
           depths.depth % 2 == 0 && std::ranges::all_of(request.core().cores(), pairs_fit);
}

/// Tiles with rows of so many elements.
bool fills_tiles(const kernel_request& request, int elements) {
    return !request.facts->gradient && request.depths.depth % elements == 0 &&
           request.depths.value_depth % rows_of_tile == 0 &&
           std::ranges::all_of(request.core().cores(), [](const plan* core) { return core->further.empty(); });
}

}  // namespace

int widest_pairing(const kernel_request& request) {
    if (!may_pair_bf16(request)) return 1;
    return fills_tiles(request, bf16_of_tile) ? bf16_of_tile : 2;
}

int usual_pairing(const kernel_request& request) {
    const int of_level = request.target->bf16_tiles ? bf16_of_tile : request.target->bf16_dot ? 2 : 1;
    if (may_multiply_codes(request))
        return request.target->bf16_tiles && may_tile_bytes(request) ? bytes_of_tile : bytes_of_word;
    return of_level <= widest_pairing(request) ? of_level : 1;
}

namespace {
/// Whether each vector of codes has one scale.
bool fills_vectors(const narrow_rows& rows, int depth) {
    return rows.block == 0 || (rows.block % coded_channels == 0 && depth % rows.block == 0);
}

/// Whether all channels of a row share the scale, as prefill wants it: decode also adds up blocks by their scales.
bool has_one_scale(const kernel_request& request, int tensor) {
    return narrow_rows_of(request.graph(), request.facts->depends, tensor).has_value();
}
}  // namespace

bool may_multiply_codes(const kernel_request& request) {
    return !request.facts->gradient && std::ranges::any_of(request.core().cores(), [&](const plan* core) {
        return integers_of_prefill_scores(request, *core) > 0 || integers_of_prefill_values(request, *core) > 0;
    });
}

int integers_of_scores(const kernel_request& request, const plan& core) {
    if (request.target->integers == integer_products::none || request.depths.depth % coded_channels != 0 ||
        core.contraction < 0)
        return 0;
    const graph_facts& facts = *request.facts;
    const auto queries = narrow_rows_of(facts.graph, facts.depends, core.query),
               keys = blocked_rows_of(facts.graph, facts.depends, core.key);
    if (!queries || !keys || !queries->of_8_bits() || !keys->of_8_bits()) return 0;
    if (!fills_vectors(*keys, request.depths.depth)) return 0;
    const bool in_bytes =
        request.target->integers == integer_products::of_bytes || pair_fits_word(queries->magnitude(), keys->span());
    return in_bytes ? 4 : 2;
}

int integers_of_values(const kernel_request& request, const plan& core) {
    if (request.target->integers == integer_products::none || core.weight_digits == 0) return 0;
    const auto values = blocked_rows_of(request.graph(), request.facts->depends, core.value);
    if (!values || !values->of_8_bits() || !fills_vectors(*values, request.depths.value_depth)) return 0;
    const bool in_bytes = request.target->integers == integer_products::of_bytes ||
                          (core.weight_digits == 1 && pair_fits_word(core.weight_steps(), values->magnitude()));
    return in_bytes ? 4 : 2;
}

bool may_tile_bytes(const kernel_request& request) {
    return request.target->integers == integer_products::of_bytes && fills_tiles(request, bytes_of_tile) &&
           std::ranges::all_of(request.core().cores(), [&](const plan* core) {
               return integers_of_prefill_scores(request, *core) == bytes_of_word &&
                      integers_of_prefill_values(request, *core) == bytes_of_word;
           });
}

int integers_of_prefill_scores(const kernel_request& request, const plan& core) {
    const int at_a_time = integers_of_scores(request, core);
    return at_a_time > 0 && has_one_scale(request, core.key) ? at_a_time : 0;
}

int integers_of_prefill_values(const kernel_request& request, const plan& core) {
    const int at_a_time = integers_of_values(request, core);
    if (at_a_time == 0 || !has_one_scale(request, core.value)) return 0;
    const instruction& weights = request.graph().nodes[core.weights];
    const bool of_softmax = core.weights_by == statistic::softmax &&
                            (weights.op == operation::in_u8 || weights.op == operation::in_i16) &&
                            weights.arguments[0] == core.statistic_node;
    return !of_softmax ? 0 : core.weight_digits == 1 ? at_a_time : 2;
}

void check(const kernel_request& request) {
    if (is_for_gpu(request.schedule) != request.on_gpu())
        throw std::runtime_error("expected a schedule for " + std::string(request.on_gpu() ? "a GPU" : "a CPU") +
                                 ", got " + to_json(request.schedule) + "; try what `explain --json` says");
    if (const bool gradient = request.facts->gradient.has_value(); gradient != is_for_gradient(request.schedule))
        throw std::runtime_error("expected a schedule for " + std::string(gradient ? "a gradient" : "attention") +
                                 ", got " + to_json(request.schedule) + "; try what `explain --json` says");
    if (const bool recurrence = has_recurrences(request.graph().nodes);
        recurrence != is_for_recurrence(request.schedule))
        throw std::runtime_error("expected a schedule for " + std::string(recurrence ? "a recurrence" : "attention") +
                                 ", got " + to_json(request.schedule) + "; try what `explain --json` says");
    if (uses_tensor_cores(request.schedule))
        if (const std::string reason = no_tensor_cores_because(request, shapes_of(request.schedule)); !reason.empty())
            throw std::runtime_error("no kernel for tensor cores: " + reason);
    if (const auto* cut = std::get_if<gpu_tensor_prefill>(&request.schedule); cut && request.target->warpgroups)
        if (const std::string wrong = not_for_warpgroups(*cut); !wrong.empty())
            throw std::runtime_error("expected " + wrong + "; try other blocks");
    check(request.schedule, request.depths);
}

depth_pair depth_pair_from(std::string_view text) {
    const auto number = [&](std::string_view digits) {
        int value = 0;
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        if (error != std::errc{} || end != digits.data() + digits.size() || value < 1 || value > 4096)
            throw std::runtime_error("expected depths as \"64\" or \"64x32\", from 1 to 4096, got \"" +
                                     std::string(text) + "\"");
        return value;
    };
    const auto x = text.find('x');
    const int depth = number(text.substr(0, x));
    return {depth, x == text.npos ? depth : number(text.substr(x + 1))};
}

int tf32_products_from(std::string_view text) {
    if (text == "f32") return 0;
    if (text == "tf32") return 1;
    if (text == "3xtf32") return 3;
    throw std::runtime_error("expected products of f32 as f32, tf32 or 3xtf32, got \"" + std::string(text) + "\"");
}

product_tile product_tile_of(const kernel_request& request) {
    if (request.on_gpu()) return {decodes(request.schedule) ? 1 : 8, 4};
    const int lanes = lanes_of(request.schedule);
    return {lanes >= 16 ? 12 : 6, 2 * lanes};
}

}  // namespace attune::generators::inline kernel
