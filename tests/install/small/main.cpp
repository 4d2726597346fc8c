#include <attune/common.hpp>
#include <attune/runtime.hpp>
#include <cstdio>
#include <vector>

int main() {
    using namespace attune::common;
    std::vector<float> data(1 * 8 * 256 * 64, 1.0f), result(data.size());
    const auto view = [](auto& x) { return attune::tensor(x.data(), {1, 8, 256, 64}); };
    attune::run<causal_attention>(q = view(data), k = view(data), v = view(data), out = view(result));
    std::printf("%g\n", static_cast<double>(result.back()));
    return result.back() == 1.0f ? 0 : 1;
}
