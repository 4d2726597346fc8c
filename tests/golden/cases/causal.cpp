#include "../variants/causal.hpp"
#include "../golden.hpp"

namespace attune::testing {
namespace {

/// num_full and num_partial: of each block of queries, how many blocks of keys are visible throughout, and how many in
/// part.
void count_blocks(support::tensor_file& file) {
    const graph_ir graph = dsl::ir_of<golden::mask_causal>;
    const std::int64_t queries = file["q"].shape[2], keys = file["k"].shape[2];
    const auto block = static_cast<std::int64_t>(file.params.at("block_size"));
    const auto visible = reference::evaluate(graph, arguments_of(graph, file), {.keep_visible = true}).visible;
    std::vector<std::int32_t> full, partial;
    for (std::int64_t q0 = 0; q0 < queries; q0 += block) {
        full.push_back(0), partial.push_back(0);
        for (std::int64_t k0 = 0; k0 < keys; k0 += block) {
            std::int64_t seen = 0, pairs = 0;
            for (std::int64_t q = q0; q < std::min(q0 + block, queries); ++q)
                for (std::int64_t k = k0; k < std::min(k0 + block, keys); ++k, ++pairs)
                    seen += visible[static_cast<std::size_t>(q * keys + k)];
            full.back() += seen == pairs;
            partial.back() += seen != 0 && seen != pairs;
        }
    }
    file.tensors.push_back(integers("num_full", {static_cast<std::int64_t>(full.size())}, full));
    file.tensors.push_back(integers("num_partial", {static_cast<std::int64_t>(partial.size())}, partial));
}

}  // namespace

std::vector<recipe> causal_cases() {
    std::vector<recipe> cases;
    for (const auto* stem : {"mask_causal", "conv_causal_top_left_tall", "conv_causal_top_left_wide",
                             "conv_depth_causal_80", "conv_gqa", "conv_value_depth_larger"})
        cases.push_back(computes<golden::mask_causal>(stem));
    cases.push_back({"mask_causal_blocks", {computes<golden::mask_causal>(), count_blocks}});
    return cases;
}

}  // namespace attune::testing
