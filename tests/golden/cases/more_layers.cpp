#include "../golden.hpp"
#include "../variants/layers.hpp"

#include <algorithm>

namespace attune::testing {
namespace {

/// nan_rows: where no key is visible, which the tutorials' own code makes NaN of.
void flag_empty_rows(support::tensor_file& file) {
    const support::file_tensor& mask = file["mask"];
    const std::int64_t keys = mask.shape.back();
    std::vector<std::uint8_t> empty;
    for (std::int64_t row = 0; row < mask.count() / keys; ++row) {
        const auto* of = mask.as<std::uint8_t>() + row * keys;
        empty.push_back(std::all_of(of, of + keys, [](std::uint8_t visible) { return visible == 0; }));
    }
    support::file_tensor flags{
        "nan_rows", element_type::u8, {mask.shape[0], mask.shape[1]}, std::vector<std::byte>(empty.size())};
    std::ranges::transform(empty, flags.bytes.begin(), [](std::uint8_t e) { return std::byte{e}; });
    file.tensors.push_back(std::move(flags));
}

}  // namespace

std::vector<recipe> more_layer_cases() {
    using namespace layers;
    return {
        computes<single_head::layer>("seed000_v1"),
        computes<toy::single>("seed000_v1_demo"),
        computes<fused::plain>("seed000_v2"),
        computes<toy::fused>("seed000_v2_demo"),
        computes<toy::fused>("seed000_v3_demo"),
        computes<toy::masked>("seed000_v3_demo_mask"),
        computes<fused::dropout>("seed000_v3_dropout"),
        {"seed000_v3_empty_rows", {computes<fused::masked>(), flag_empty_rows}},
        computes<fused::masked>("seed000_v3_mask"),
        computes<fused::masked>("seed000_v3_random_mask"),
        computes<toy::heads>("seed000_v4_demo"),
        computes<fused_heads::dropout>("seed000_v4_dropout"),
        computes<fused_heads::masked>("seed000_v4_mask"),
        computes<scaled_dot_product::shared>("seed001_dot_demo"),
        computes<scaled_dot_product::plain>("seed001_dot_heads"),
        computes<scaled_dot_product::masked>("seed001_dot_mask"),
        computes<multi_head::cross_padded>("seed001_mha_cross"),
        computes<multi_head::cross>("seed001_mha_cross_d64"),
        computes<self_attention::plain>("seed001_self"),
        computes<per_head_projection::masked>("seed002_empty_rows"),
        computes<per_head_projection::look_ahead>("seed002_lookahead_demo"),
        computes<per_head_projection::masked>("seed002_padding"),
        computes<per_head_projection::plain>("seed002_plain"),
        computes<per_head_projection::projected>("seed002_projected"),
        computes<multi_head_self::plain>("seed003_mha"),
        computes<multi_head_self::plain>("seed003_mha_d64"),
        {"seed003_seed001_demo512", {computes<golden::words_bf16>(), computes<golden::second_sequence>()}},
        computes<golden::words>("seed003_toy"),
        computes<single_head_masked::plain>("seed004_v1"),
        computes<toy::by_other_names>("seed004_v1_demo"),
        computes<fused::scaled_after>("seed004_v2"),
        computes<fused::scaled_after>("seed004_v2_d64"),
        computes<toy::scaled_after>("seed004_v2_demo"),
        computes<toy::masked_projected>("seed004_v3_demo"),
        computes<fused::dropout_projected>("seed004_v3_dropout"),
        {"seed004_v3_empty_rows", {computes<fused::masked_projected>(), flag_empty_rows}},
        computes<fused::masked_projected>("seed004_v3_mask"),
        computes<toy::masked_by_other_names>("seed004_v4_demo"),
        computes<single_head_masked::dropout>("seed004_v4_dropout"),
        computes<single_head_masked::masked>("seed004_v4_mask"),
    };
}

}  // namespace attune::testing
