#include "../variants/tiles.hpp"
#include "../golden.hpp"

#include <algorithm>
#include <numeric>

namespace attune::testing {
namespace {

/// topk: of every tile of queries the top_k tiles of keys by score, in ascending order.
void choose_tiles(support::tensor_file& file) {
    const support::file_tensor& scores = file["coarse_scores"];
    const std::int64_t tiles = scores.shape[3], rows = scores.count() / tiles;
    const auto chosen = std::min(static_cast<std::int64_t>(file.params.at("top_k")), tiles);
    std::vector<std::int32_t> topk, order(static_cast<std::size_t>(tiles));
    for (std::int64_t row = 0; row < rows; ++row) {
        const float* s = scores.as<float>() + row * tiles;
        std::iota(order.begin(), order.end(), 0);
        std::ranges::partial_sort(order, order.begin() + chosen, [s](int a, int b) { return s[a] > s[b]; });
        std::ranges::sort(order.begin(), order.begin() + chosen);
        topk.insert(topk.end(), order.begin(), order.begin() + chosen);
    }
    file.tensors.push_back(integers("topk", {scores.shape[0], scores.shape[1], scores.shape[2], chosen}, topk));
}

/// out_additive = out + w coarse, out_gated = g out + (1 - g) coarse; a tile's coarse row stands for its T tokens.
void combine(support::tensor_file& file) {
    const auto out = file["out"], coarse = file["coarse_out"];
    auto additive = reals("out_additive", out.shape), gated = reals("out_gated", out.shape);
    const auto w = static_cast<float>(file.params.at("w")), g = static_cast<float>(file.params.at("g"));
    const auto tile = static_cast<std::int64_t>(file.params.at("T"));
    const std::int64_t queries = out.shape[2], depth = out.shape[3];
    for (std::int64_t i = 0; i < out.count(); ++i) {
        const std::int64_t head = i / (queries * depth), query = i / depth % queries;
        const float fine = out.as<float>()[i],
                    lifted = coarse.as<float>()[(head * coarse.shape[2] + query / tile) * depth + i % depth];
        additive.as<float>()[i] = fine + w * lifted;
        gated.as<float>()[i] = g * fine + (1 - g) * lifted;
    }
    file.tensors.push_back(std::move(additive));
    file.tensors.push_back(std::move(gated));
}

}  // namespace

std::vector<recipe> tile_cases() {
    return {
        computes<golden::mask_vsa_map>("mask_vsa_map"),
        computes<golden::mask_vsa_padding>("mask_vsa_padding"),
        {"mask_vsa_pipeline",
         {computes<golden::coarse>(), choose_tiles, computes<golden::mask_vsa_topk_sizes>(), combine}},
        computes<golden::mask_vsa_topk>("mask_vsa_topk"),
        computes<golden::mask_vsa_topk_sizes>("mask_vsa_topk_sizes"),
    };
}

}  // namespace attune::testing
