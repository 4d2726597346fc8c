#pragma once
#include "weights.hpp"

#include <attune/runtime/tensor.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace sentence_embeddings {

/// The sizes of a BERT model; as they stand, those of MiniLM-L6. Its heads have the depth that bert.hpp is compiled
/// for.
struct sizes {
    std::int64_t vocabulary = 30522, places = 512, width = 384, heads = 12, inner = 1536, layers = 6;
};

/// Sentences to embeddings: the layers of bert.hpp, then the mean over a sentence's tokens, scaled to a length of 1.
class encoder {
public:
    /// Throws std::runtime_error where a tensor is missing or has another shape. The weights must outlive it.
    explicit encoder(const weights& file, const sizes& model = {});

    /// A row of `width` a sentence. Each is a list of 1 to `places` pieces of the vocabulary. Sentences of some 16384
    /// tokens are one batch.
    std::vector<float> operator()(std::span<const std::vector<std::int32_t>> sentences) const;

    std::int64_t width() const { return model_.width; }

private:
    void encode(std::span<const std::vector<std::int32_t>> batch, float* rows) const;

    /// Weight and bias of a projection, or gain and shift of a normalisation.
    struct parameters {
        attune::tensor weight, bias;
    };
    struct layer {
        parameters query, key, value, merged, attended, inner, outer, fed_forward;
    };
    sizes model_;
    attune::tensor words_, of_place_, of_segment_;
    parameters embedded_;
    std::vector<layer> layers_;
};

}  // namespace sentence_embeddings
