#include "../variants/documents.hpp"
#include "../golden.hpp"

std::vector<attune::testing::recipe> attune::testing::document_cases() {
    return {
        computes<golden::conv_combined>("conv_combined"),
        computes<golden::conv_varlen_causal>("conv_varlen_causal"),
        computes<golden::mask_document_causal>("mask_document_causal"),
        computes<golden::mask_document_window>("mask_document_window"),
        computes<golden::mask_fa4_document>("mask_fa4_document"),
        computes<golden::mask_fa4_packed_document>("mask_fa4_packed_document"),
        computes<golden::mask_fa4_row_window>("mask_fa4_row_window"),
        computes<golden::mask_packed_causal_document>("mask_packed_causal_document"),
        computes<golden::mask_shared_prefix>("mask_shared_prefix"),
        computes<golden::score_fa4_conditional>("score_fa4_conditional"),
        computes<golden::score_fa4_global_bias>("score_fa4_global_bias"),
        computes<golden::score_fa4_rel_plus_kv_bias>("score_fa4_rel_plus_kv_bias"),
    };
}
