// An application of test::changing, or with -DNEVER_BUILT of a variant that no kernel library was made for.
#include "changing.hpp"

#include <attune/runtime.hpp>

#include <vector>

namespace test {
inline constexpr auto never_built = softmax(mask(q * t(k), causal)) * v;
}

int main() {
    std::vector<float> ones(64, 1.0f), result(64);
    const attune::tensor x(ones.data(), {1, 1, 1, 64}), y(result.data(), {1, 1, 1, 64});
    using namespace test;
#ifdef NEVER_BUILT
    attune::run<never_built>(q = x, k = x, v = x, out = y);
#else
    attune::run<changing>(q = x, k = x, v = x, out = y);
#endif
    return result[0] == 1.0f ? 0 : 1;
}
