#include "kernel_list.hpp"

#include "device_target.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace attune::generators {
namespace {

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

}  // namespace

std::vector<listed_kernel> kernels_of(std::span<const variant> variants, const build_request& build) {
    for (const std::string& target : build.targets) level_named(target);
    std::vector<listed_kernel> all;
    for (const variant& each : variants)
        for (const level& isa : levels()) {
            if (std::find(build.targets.begin(), build.targets.end(), isa.name) == build.targets.end()) continue;
            for (const std::string& dtype : build.dtypes)
                for (const std::string& depths : build.depths) {
                    kernel_request request{each.graph, element_types_from(dtype), depth_pair_from(depths), {}};
                    request.schedule = is_device(isa) ? default_device_schedule(request.depths.depth, request.depths.value_depth)
                                                  : default_schedule(isa, request.depths.depth, request.depths.value_depth, masking_of(each.graph));
                    if (isa.pairs && can_pair(request)) request.schedule.pairing = 2;
                    std::string symbol =
                        fmt::format("attune_{}_{}_d{}x{}_{}_{:016x}", symbol_text(each.name), symbol_part(request.types),
                                    request.depths.depth, request.depths.value_depth, symbol_text(isa.name), each.graph.fingerprint);
                    all.push_back({&each, &isa, request, std::move(symbol), 1, std::numeric_limits<int>::max()});
                }
        }
    return all;
}

}  // namespace attune::generators
