#include "../golden.hpp"
#include "../variants/documents.hpp"

std::vector<attune::testing::variant_of_stem> attune::testing::document_cases() {
    return {
        computes<golden::conv_combined>("conv_combined"),
        computes<golden::mask_document_causal>("mask_document_causal"),
        computes<golden::mask_document_window>("mask_document_window"),
        computes<golden::mask_fa4_document>("mask_fa4_document"),
        computes<golden::mask_packed_causal_document>("mask_packed_causal_document"),
        computes<golden::mask_shared_prefix>("mask_shared_prefix"),
    };
}
