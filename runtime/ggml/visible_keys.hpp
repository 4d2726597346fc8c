#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace attune::ggml {

/// A dense mask (batch, query, key) of f16, whose rows lie `row_stride` elements apart and whose batch elements
/// `batch_stride`.
struct dense_mask {
    const std::uint16_t* values;
    std::int64_t batches, queries, keys;
    std::int64_t batch_stride, row_stride;
};

/// Which keys each query sees: none before `first` and none from `end` on. ggml's operator has no word for causal masks
/// and windows; this finds them in the mask's values.
struct visible_keys {
    std::vector<std::int32_t> first, end;  ///< (batch, query)
    bool intervals{};  ///< each query sees all keys between, with a mask of 0: the mask need not be read again
};

/// One pass over the mask. A row that is all -infinity sees no key: first and end are 0.
void find_visible_keys(const dense_mask& mask, visible_keys& found);

}  // namespace attune::ggml
