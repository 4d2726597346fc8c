#include "kernel/kernel_list.hpp"

#include "analysis/listed_keys.hpp"
#include "base/about.hpp"
#include "base/formatting.hpp"
#include "kernel/cpu_schedule.hpp"
#include "kernel/gpu_schedule.hpp"
#include "kernel/gradient_schedule.hpp"
#include "kernel/tensor_schedule.hpp"

#include <attune/ir/recurrence.hpp>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace attune::generators::inline kernel {
namespace {

constexpr int most_decoded = 16;  ///< queries: beyond it a tile of a vector of queries is full enough to be faster

std::string symbol_text(std::string_view text) {
    std::string symbol;
    for (const char c : text) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (letter)
            symbol += c;
        else if (c >= 'A' && c <= 'Z')
            symbol += static_cast<char>(c - 'A' + 'a');
        else if (!symbol.empty() && symbol.back() != '_')
            symbol += '_';
    }
    return symbol;
}

/// Whether a graph gets kernels of a class: "decode" asks for them for every graph, "decode:my::graph" for that one.
bool wants(const build_request& build, shape_class shapes, std::string_view graph) {
    return std::any_of(build.shapes.begin(), build.shapes.end(), [&](const std::string& text) {
        const std::size_t colon = text.find(':');
        return shape_class_from(text.substr(0, colon)) == shapes &&
               (colon == std::string::npos || text.substr(colon + 1) == graph);
    });
}

/// Whether so many lanes read keys or values of 16 bits, which are converted as they are read.
bool converts_in(int lanes, const kernel_request& request) {
    return request.target->lanes == lanes && (bytes_of(request.types.key) != 4 || bytes_of(request.types.value) != 4);
}

/// Whether the build has this kernel already, for x86-64-v4. x86-64-v4-bf16 adds products of pairs of bf16,
/// x86-64-v4-amx those of tiles of bf16; both add products of bytes, which take codes faster. Decode of bf16 comes with
/// them, since a call looks for its level first.
bool repeats_lower_level(const kernel_request& request, const build_request& build) {
    const auto in_integers = [&](const plan* core) {
        return integers_of_scores(request, *core) > 0 || integers_of_values(request, *core) > 0;
    };
    return request.target->is_for_bf16() && std::ranges::find(build.targets, "x86-64-v4") != build.targets.end() &&
           !(usual_pairing(request) > 1 ||
             (!request.facts->gradient && std::ranges::any_of(request.core().cores(), in_integers)));
}

}  // namespace

schedule default_prefill(const kernel_request& request) {
    if (request.facts->gradient && request.on_gpu()) return default_gpu_gradient(request);
    if (request.facts->gradient) return default_cpu_gradient(request);
    if (request.on_gpu()) return default_gpu_prefill(request);
    const int pairing = usual_pairing(request);
    cpu_prefill s = default_cpu_prefill(*request.target, request.depths, request.facts->hides, pairing);
    const auto weighs_codes = [&](const plan* core) { return integers_of_prefill_values(request, *core) > 0; };
    // A product of integers takes a register before it is added. Measured on 8 lanes, which have 16 registers: steps
    // that are not written out take 10 to 20 % less time.
    if (pairing == bytes_of_word && s.lanes == 8) {
        s.depth_unroll = 1;
        if (std::ranges::all_of(request.core().cores(), weighs_codes)) s.value_tile = std::gcd(s.value_tile, 2);
    }
    if (pairing == 1 && (converts_in(8, request) || converts_in(16, request)))
        s.query_block *= 2;  // each block converts anew: full calls of depth 128 take 4 % less time, causal ones 5 %
    return s;
}

schedule default_decode(const kernel_request& request) {
    const masking hides = request.facts->hides;
    if (request.on_gpu()) return default_gpu_decode(request);
    cpu_decode s = default_cpu_decode(*request.target, hides);
    if (converts_in(8, request)) {  // computing takes as long as reading: sums are loaded and stored less often, 5 to 9
                                    // % less time
        s.value_tile = s.depth_unroll = 4;
        if (hides == masking::none) s.key_block = 256;
    }
    return s;
}

namespace {

/// Chunks of a recurrence, by the number of tokens that a call has at most: of 16 tokens wherever there are that many,
/// since longer chunks have more than twice as many pairs of tokens and gain nothing in f32.
struct chunk_of_calls {
    int tokens, to_queries;
    shape_class shapes;
    std::string_view serves;
};
constexpr chunk_of_calls chunks_of_calls[] = {{16, std::numeric_limits<int>::max(), shape_class::prefill, ""},
                                              {4, 4, shape_class::decode, "decode4_"},
                                              {1, 1, shape_class::decode, "decode1_"}};

/// The name under which an object exports a kernel; `serves` says which of a graph's kernels it is.
std::string symbol_of(const variant& each, const kernel_request& request, std::string_view serves) {
    return fmt::format("attune_{}_{}_d{}x{}_{}_{}{:016x}", symbol_text(each.name), symbol_part(request.types),
                       request.depths.depth, request.depths.value_depth, symbol_text(request.target->name), serves,
                       each.graph.fingerprint);
}

/// The kernels of a recurrence, on CPUs. Rows of 16 bits are converted as they are read, so levels with products of
/// bf16 would have the same kernels as x86-64-v4; beside it they are left out.
void add_recurrent_kernels(std::vector<listed_kernel>& all, const variant& each, const build_request& build,
                           const std::shared_ptr<const graph_facts>& facts) {
    for (const level& isa : levels()) {
        if (std::find(build.targets.begin(), build.targets.end(), isa.name) == build.targets.end()) continue;
        if (isa.is_gpu) throw std::runtime_error("a recurrence has no kernel on a GPU yet; try TARGETS of CPUs");
        if (isa.is_for_bf16() && std::ranges::find(build.targets, "x86-64-v4") != build.targets.end()) continue;
        for (const std::string& dtype : build.dtypes)
            for (const std::string& depths : build.depths)
                for (const auto& [tokens, to_queries, shapes, serves] : chunks_of_calls) {
                    if (!wants(build, shapes, each.name)) continue;  // short chunks go through a prompt, too
                    if (shapes == shape_class::decode && is_gradient_of_recurrence(each.graph.nodes)) continue;
                    kernel_request request{facts, element_types_from(dtype), depth_pair_from(depths), &isa, {}, false};
                    request.schedule = default_cpu_recurrence(isa, tokens);
                    all.push_back({&each, request, symbol_of(each, request, serves), 1, to_queries});
                }
    }
}

/// The kernels of one graph, for types and depths whose texts are known to be valid.
void add_kernels(std::vector<listed_kernel>& all, const variant& each, const build_request& build) {
    const std::shared_ptr<const graph_facts> facts = facts_of(each.graph);  // refuses one that is not one kernel
    const bool prefill = wants(build, shape_class::prefill, each.name),
               decode = wants(build, shape_class::decode, each.name);
    const std::string& no_decode = facts->decode_unsupported_reason;
    const std::shared_ptr<const graph_facts> listed = facts_of_listed_keys(*facts);
    if (!prefill && !decode)
        throw std::runtime_error("expected prefill or decode in SHAPES, for every graph or for this one, got neither");
    if (!prefill && !no_decode.empty())
        throw std::runtime_error("no kernel for decode: " + no_decode + "; try SHAPES prefill");
    if (has_recurrences(each.graph.nodes)) return add_recurrent_kernels(all, each, build, facts);
    for (const level& isa : levels()) {
        if (std::find(build.targets.begin(), build.targets.end(), isa.name) == build.targets.end()) continue;
        if (!prefill && isa.name == "vulkan")
            throw std::runtime_error(
                "no kernel for decode: Vulkan has none for few queries; try SHAPES prefill decode");
        for (const std::string& dtype : build.dtypes)
            for (const std::string& depths : build.depths) {
                kernel_request request{facts, element_types_from(dtype),       depth_pair_from(depths), &isa,
                                       {},    build.finite && !facts->gradient};
                if (request.types.query == element_type::f32 && isa.called() == "cuda")
                    request.tf32_products = tf32_products_from(build.f32_products);
                if (repeats_lower_level(request, build)) continue;
                const auto add = [&](const schedule& cut, int to_queries, std::string_view serves) {
                    request.schedule = cut;
                    all.push_back({&each, request, symbol_of(each, request, serves), 1, to_queries});
                };
                const std::string no_tensor_cores = no_tensor_cores_because(request, shape_class::prefill),
                                  none_in_decode = no_tensor_cores_because(request, shape_class::decode);
                if (prefill && no_tensor_cores.empty())
                    add(default_gpu_tensor_prefill(request), std::numeric_limits<int>::max(), "tensor_");
                if (isa.warpgroups) continue;  // all else is made for other targets
                if (prefill) add(default_prefill(request), std::numeric_limits<int>::max(), "");
                const auto note = [&](const std::string& none) {
                    if (isa.name != "cuda") return;
                    all.back().schedule_from +=
                        none.empty() ? fmt::format("; of calls whose rows do not begin at multiples of {} bytes",
                                                   tensor_row_alignment)
                                     : "; without tensor cores, as " + none;
                };
                if (prefill) note(no_tensor_cores);
                if (!decode || !no_decode.empty() || isa.name == "vulkan") continue;
                if (none_in_decode.empty()) add(default_gpu_tensor_decode(request), most_decoded, "tensor_decode_");
                if (listed && !isa.is_gpu) request.facts = listed;
                add(default_decode(request), most_decoded, prefill ? "decode_" : "");
                note(none_in_decode);
            }
    }
}

}  // namespace

std::string missing_level_of(std::span<const listed_kernel> kernels, const variant& of) {
    const auto multiplies_bytes = [](const kernel_request& request) {
        return std::ranges::any_of(request.core().cores(), [&](const plan* core) {
            return integers_of_scores(request, *core) == bytes_of_word ||
                   integers_of_values(request, *core) == bytes_of_word;
        });
    };
    bool without = false;
    for (const listed_kernel& each : kernels) {
        if (each.of != &of || !std::holds_alternative<cpu_decode>(each.request.schedule)) continue;
        if (each.request.target->integers == integer_products::of_bytes) return {};
        if (each.request.target->name != "x86-64-v4") continue;
        kernel_request there = each.request;
        there.target = &level_named("x86-64-v4-bf16");
        without |= multiplies_bytes(there);
    }
    return without
               ? "decode multiplies integers, for which x86-64-v4-bf16 and x86-64-v4-amx have instructions; try these "
                 "levels among TARGETS, with bf16 in DTYPES or quantized<...> in the header"
               : "";
}

std::vector<listed_kernel> kernels_of(std::span<const variant> variants, const build_request& build) {
    for (const std::string& target : build.targets) level_named(target);
    for (const std::string& dtype : build.dtypes) element_types_from(dtype);
    for (const std::string& depths : build.depths) depth_pair_from(depths);
    tf32_products_from(build.f32_products);
    std::vector<listed_kernel> all;
    for (const variant& each : variants) about(each.name, [&] { add_kernels(all, each, build); });
    return all;
}

}  // namespace attune::generators::inline kernel
