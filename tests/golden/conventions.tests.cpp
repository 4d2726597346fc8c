// Where attention systems differ, and which golden files say what attune means: a case a convention, always of the
// committed files.
#include "golden.hpp"

#include <catch2/catch_test_macros.hpp>

#include <initializer_list>

using namespace attune::testing;

namespace {

void hold(std::initializer_list<const char*> stems) {
    for (const char* stem : stems) {
        const std::filesystem::path path =
            std::filesystem::path(ATTUNE_GOLDEN_FILES) / (std::string(stem) + ".safetensors");
        golden_run run(path, recipe_for(path));
        run.with_kernels();
        for (const auto& c : run.compare()) {
            INFO(stem << ": " << c.output << ", error " << c.error << ", tolerance " << c.tolerance);
            CHECK(c.passes());
        }
    }
}

}  // namespace

TEST_CASE("causal is aligned top-left, or bottom-right where the graph says so", "[conventions]") {
    hold({"conv_causal_top_left_tall", "conv_causal_top_left_wide", "conv_causal_bottom_right_tall",
          "conv_causal_bottom_right_wide", "conv_kv_lengths_causal_br", "conv_varlen_causal"});
}

TEST_CASE("both ends of a window are inclusive: window(w, 0) are w + 1 keys, window(w - 1, 0) are w", "[conventions]") {
    hold({"conv_window_w_keys", "conv_window_w_plus_1", "conv_window_left_only", "conv_window_left_right",
          "conv_window_left_right_br", "mask_sliding_window"});
}

TEST_CASE("softcap comes before the mask: masked keys weigh nothing", "[conventions]") {
    hold({"conv_softcap_then_mask", "conv_combined"});
}

TEST_CASE("a fully masked row is zero and its LSE -infinity", "[conventions]") {
    hold({"conv_empty_rows", "conv_float_mask", "conv_causal_bottom_right_tall", "conv_window_left_right_br",
          "mask_fa4_causal_offset", "mask_vision_cross", "mask_fa4_packed_document"});
}

TEST_CASE("LSE is a natural logarithm; another base is arithmetic on it", "[conventions]") {
    hold({"conv_extra_outputs"});
}

TEST_CASE("ALiBi's distance is what the formula says: signed, absolute, or aligned bottom-right", "[conventions]") {
    hold({"score_alibi", "score_alibi_causal", "conv_alibi_fa", "score_fa4_alibi", "conv_decode_window_alibi",
          "conv_alibi_heads_gym", "conv_alibi_heads_paper"});
}

TEST_CASE("a sink joins the denominator once, and the LSE", "[conventions]") {
    hold({"conv_sink", "conv_sink_empty_rows", "conv_selected_attention"});
}

TEST_CASE("without keys outputs are zero and LSE -infinity", "[conventions]") {
    hold({"conv_empty_kv", "conv_kv_lengths"});
}

TEST_CASE("scores are scaled as the graph says, before softcap", "[conventions]") {
    hold({"conv_scale", "score_softcap", "conv_softcap_then_mask"});
}

TEST_CASE("keys beyond kv_lengths are never read", "[conventions]") { hold({"conv_nan_padding", "conv_kv_lengths"}); }

TEST_CASE("query head h reads key head h / (heads / key heads)", "[conventions]") {
    hold({"conv_gqa", "conv_mqa", "conv_gqa_per_head_mod"});
}

TEST_CASE("dropout scales what it keeps, and leaves the LSE alone", "[conventions]") { hold({"conv_dropout_keep"}); }

TEST_CASE("empty attention states are neutral in a merge", "[conventions]") { hold({"conv_merge"}); }
