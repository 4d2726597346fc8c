#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace sentence_embeddings {

struct similar_pair {
    float cosine;
    std::size_t first, second;  ///< first < second
};

/// The `count` pairs of rows that are most alike, at most; best first. Rows are of unit length.
std::vector<similar_pair> most_similar(std::span<const float> rows, std::size_t width, std::size_t count);

}  // namespace sentence_embeddings
