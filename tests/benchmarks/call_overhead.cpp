// Nanoseconds of a call of one tile: whole, and with a kernel that does nothing - checks, choice, binding and hooks.
#include "variants.hpp"

#include <attune/runtime.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace {

using namespace attune::detail;

/// The least of many means: what it costs where nothing else disturbs.
template <class Call> double nanoseconds(Call call) {
    using clock = std::chrono::steady_clock;
    double least = 1e9;
    for (int repeat = 0; repeat < 300; ++repeat) {
        const auto start = clock::now();
        for (int i = 0; i < 100; ++i) call();
        least = std::min(least, std::chrono::duration<double, std::nano>(clock::now() - start).count() / 100);
    }
    return least;
}

named_argument view(std::string_view name, attune::tensor t) {
    return {.name = name, .is = named_argument::form::view, .view = t};
}

}  // namespace

int main() {
    const attune::kernel_table& table = table_of<bench::alibi_attention>();
    std::vector<attune::kernel> kernels(table.kernels.begin(), table.kernels.end());
    for (attune::kernel& k : kernels) k.call = [](void**) { return 0; };
    attune::kernel_table idle = table;
    idle.kernels = kernels;
    for (const std::int64_t length : {1, 16, 48}) {
        std::vector<float> data(static_cast<std::size_t>(length) * 64, 0.5f), result(data.size()), slope{0.1f};
        const attune::tensor in(data.data(), {1, 1, length, 64}), out(result.data(), {1, 1, length, 64});
        const std::vector<named_argument> arguments{view("q", in), view("k", in), view("v", in),
                                                    view("slopes", attune::tensor(slope.data(), {1})),
                                                    view("out", out)};
        std::printf("%2lld queries and keys: %7.0f ns, of them %4.0f ns beside the kernel\n",
                    static_cast<long long>(length), nanoseconds([&] { call(table, arguments, {}); }),
                    nanoseconds([&] { call(idle, arguments, {}); }));
    }
}
