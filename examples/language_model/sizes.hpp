#pragma once
#include "gguf.hpp"

namespace language_model {

/// The sizes of a model, as its GGUF has them.
struct sizes {
    /// Throws std::runtime_error where the file is neither a Llama nor a Gemma 3, or one that is computed otherwise.
    explicit sizes(const gguf& file);

    bool gemma;
    std::int64_t layers, width, inner, heads, key_heads, depth, vocabulary, longest, window;
    float epsilon;
    double base, local_base;  ///< of the rotations; a local layer's own
};

}  // namespace language_model
