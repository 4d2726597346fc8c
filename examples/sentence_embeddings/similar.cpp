#include "similar.hpp"

#include <algorithm>
#include <array>

namespace sentence_embeddings {
namespace {

float product(const float* x, const float* y, std::size_t width) {
    std::array<float, 16> sums{};  // as many as a compiler puts in registers
    std::size_t d = 0;
    for (; d + sums.size() <= width; d += sums.size())
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += x[d + i] * y[d + i];
    float sum = 0;
    for (; d < width; ++d) sum += x[d] * y[d];
    for (const float each : sums) sum += each;
    return sum;
}

}  // namespace

std::vector<similar_pair> most_similar(std::span<const float> rows, std::size_t width, std::size_t count) {
    const auto better = [](const similar_pair& x, const similar_pair& y) { return x.cosine > y.cosine; };
    std::vector<similar_pair> best;  // a heap, the least of them on top
    for (std::size_t second = 1; second < rows.size() / width; ++second)
        for (std::size_t first = 0; first < second; ++first) {
            const similar_pair pair{product(&rows[first * width], &rows[second * width], width), first, second};
            if (best.size() == count && !better(pair, best.front())) continue;
            if (best.size() == count) std::pop_heap(best.begin(), best.end(), better), best.pop_back();
            best.push_back(pair);
            std::push_heap(best.begin(), best.end(), better);
        }
    std::sort_heap(best.begin(), best.end(), better);
    return best;
}

}  // namespace sentence_embeddings
