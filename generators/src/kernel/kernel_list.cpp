#include "kernel/kernel_list.hpp"

#include "analysis/plan.hpp"
#include "base/about.hpp"
#include "base/formatting.hpp"
#include "kernel/device.hpp"
#include "kernel/gpu_schedule.hpp"

#include <algorithm>
#include <stdexcept>

namespace attune::generators {
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

/// Where keys and values of 16 bits are converted as they are read.
void use_for_types(schedule& s, const element_types& types, const level& isa, masking hides) {
    if (isa.lanes != 8 || s.pairing != 1 || (bytes_of(types.key) == 4 && bytes_of(types.value) == 4)) return;
    if (s.shapes == shape_class::decode) {  // what is computed takes as long as reading does: sums are loaded and
                                            // stored less often, 5 to 9 % less time
        s.value_tile = s.depth_unroll = 4;
        if (hides == masking::none) s.key_block = 256;
    } else {
        s.query_block *= 2;  // each block converts anew: full calls of depth 128 take 4 % less time, causal ones 5 %
    }
}

/// The kernels of one graph, for types and depths that are known to be such.
void add_kernels(std::vector<listed_kernel>& all, const variant& each, const build_request& build) {
    plan_of(each.graph);  // refuses a graph that is not one kernel
    const bool prefill = wants(build, shape_class::prefill, each.name),
               decode = wants(build, shape_class::decode, each.name);
    const std::string no_decode = decode_unsupported_reason(each.graph);
    if (!prefill && !decode)
        throw std::runtime_error("expected prefill or decode in SHAPES, for every graph or for this one, got neither");
    if (!prefill && !no_decode.empty())
        throw std::runtime_error("no kernel for decode: " + no_decode + "; try SHAPES prefill");
    const masking hides = masking_of(each.graph);
    for (const level& isa : levels()) {
        if (std::find(build.targets.begin(), build.targets.end(), isa.name) == build.targets.end()) continue;
        if (!prefill && isa.name == "vulkan")
            throw std::runtime_error(
                "no kernel for decode: Vulkan has none for few queries; try SHAPES prefill decode");
        for (const std::string& dtype : build.dtypes)
            for (const std::string& depths : build.depths) {
                kernel_request request{each.graph, element_types_from(dtype), depth_pair_from(depths), {}};
                const auto add = [&](const schedule& cut, int to_queries, std::string_view serves) {
                    request.schedule = cut;
                    all.push_back(
                        {&each, &isa, request,
                         fmt::format("attune_{}_{}_d{}x{}_{}_{}{:016x}", symbol_text(each.name),
                                     symbol_part(request.types), request.depths.depth, request.depths.value_depth,
                                     symbol_text(isa.name), serves, each.graph.fingerprint),
                         1, to_queries});
                };
                schedule usual = is_device(isa)
                                     ? default_gpu_schedule(request, isa)
                                     : default_schedule(isa, request.depths.depth, request.depths.value_depth, hides);
                if (isa.bf16_dot && can_use_bf16_dot(request)) usual.pairing = 2;
                use_for_types(usual, request.types, isa, hides);
                if (prefill) add(usual, std::numeric_limits<int>::max(), "");
                if (!decode || !no_decode.empty() || isa.name == "vulkan") continue;
                schedule few = is_device(isa) ? default_gpu_decode_schedule(request, isa) : decode_schedule(isa, hides);
                use_for_types(few, request.types, isa, hides);
                add(few, most_decoded, prefill ? "decode_" : "");
            }
    }
}

}  // namespace

std::vector<listed_kernel> kernels_of(std::span<const variant> variants, const build_request& build) {
    for (const std::string& target : build.targets) level_named(target);
    for (const std::string& dtype : build.dtypes) element_types_from(dtype);
    for (const std::string& depths : build.depths) depth_pair_from(depths);
    std::vector<listed_kernel> all;
    for (const variant& each : variants) about(each.name, [&] { add_kernels(all, each, build); });
    return all;
}

}  // namespace attune::generators
