// Calls worked::in_steps, compares it with plain loops in double precision, and says which levels are linked.
#include "worked.hpp"

#include <attune/runtime.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace {
constexpr int positions = 150, width = 16;

/// The output of query i.
std::vector<double> expected(const std::vector<float>& q, const std::vector<float>& k, const std::vector<float>& v,
                             int i) {
    std::vector<double> out(width);
    double sum = 0;
    for (int j = 0; j < std::min(positions, (i / 16 + 1) * 16); ++j) {
        double score = 0;
        for (int d = 0; d < width; ++d) score += double{q[i * width + d]} * k[j * width + d] / std::sqrt(double{width});
        sum += std::exp(score);
        for (int d = 0; d < width; ++d) out[d] += std::exp(score) * v[j * width + d];
    }
    for (double& x : out) x /= sum;
    return out;
}
}  // namespace

int main() {
    std::vector<float> queries(positions * width), keys(positions * width), values(positions * width),
        outputs(positions * width);
    for (int i = 0; i < positions * width; ++i) {
        queries[i] = std::sin(0.1f * static_cast<float>(i));
        keys[i] = std::cos(0.3f * static_cast<float>(i));
        values[i] = std::sin(0.7f * static_cast<float>(i));
    }
    const auto view = [](auto& data) { return attune::tensor(data.data(), {1, 1, positions, width}); };
    using namespace attune::dsl;
    attune::run<worked::in_steps>(q = view(queries), k = view(keys), v = view(values), out = view(outputs));

    double error = 0;
    for (int i = 0; i < positions; ++i) {
        const std::vector<double> row = expected(queries, keys, values, i);
        for (int d = 0; d < width; ++d) error = std::max(error, std::abs(row[d] - outputs[i * width + d]));
    }
    const attune::block_map blocks =
        attune::blocks<worked::in_steps>(q = view(queries), k = view(keys), v = view(values));
    std::printf("largest error %.1e; %lld of %lld blocks\n", error, static_cast<long long>(blocks.visited()),
                static_cast<long long>(blocks.total()));
    for (const auto& kernel : attune::kernels<worked::in_steps>().entries)
        std::printf("%s: %s\n", kernel.target.c_str(),
                    kernel.missing.empty() ? "runs" : ("lacks " + kernel.missing).c_str());
    return error < 1e-5 && blocks.visited() < blocks.total() ? 0 : 1;
}
