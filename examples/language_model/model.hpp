#pragma once
#include "cache.hpp"
#include "products.hpp"

#include <functional>

namespace language_model {

/// Llama or Gemma 3, from a GGUF: everything but the attention, which a cache does.
class model {
public:
    /// Calls `loaded` with each layer's number. Throws std::runtime_error where the file is another model. The file
    /// must outlive it.
    model(const gguf& file, weight_type type, const std::function<void(int layer)>& loaded);

    /// Logits (sequence, vocabulary) of what follows the last token of each sequence that has tokens in this step, or
    /// (token, vocabulary) of what follows each token.
    std::vector<float> operator()(const step& s, cache& past, bool of_each_token = false) const;

    const sizes& shape() const { return sizes_; }

private:
    struct layer {
        std::vector<float> before, behind, before_inner, behind_inner;  ///< gains; those behind are Gemma's
        matrix q, k, v, out, gate, up, down;
        attention attends;
    };
    layer read_layer(const gguf& file, int number, weight_type type) const;

    sizes sizes_;
    std::vector<layer> layers_;
    const gguf::tensor& embedding_;  ///< (vocabulary, width), as the file has it
    std::vector<float> last_;        ///< the last gain
    matrix words_;                   ///< the embedding again, or a matrix of its own
};

}  // namespace language_model
