#include "my_attention.hpp"

#include <attune/runtime.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

// Every value is 1, so that every output must be 1 too: an average of them, whatever the scores are.
int main() {
    const int batches = 1, heads = 4, length = 300, width = 64;
    const std::size_t count = std::size_t{batches} * heads * length * width;
    std::vector<float> queries(count), keys(count), values(count, 1.0f), outputs(count),
        rates{0.5f, 0.25f, 0.125f, 0.0625f};
    for (std::size_t i = 0; i < count; ++i) {
        queries[i] = std::sin(0.1f * static_cast<float>(i));
        keys[i] = std::cos(0.2f * static_cast<float>(i));
    }

    const auto view = [&](auto& data) { return attune::tensor(data.data(), {batches, heads, length, width}); };
    try {
        using namespace my;
        attune::run<attention>(q = view(queries), k = view(keys), v = view(values),
                               slopes = attune::tensor(rates.data(), {heads}), out = view(outputs));
    } catch (const attune::error& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        return 1;
    }

    float error = 0;
    for (const float x : outputs) error = std::fmax(error, std::fabs(x - 1.0f));
    std::printf("%d heads of %d queries; largest error %.1e\n", heads, length, static_cast<double>(error));
    return error < 1e-5f ? 0 : 1;
}
