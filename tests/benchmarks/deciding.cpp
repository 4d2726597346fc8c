// The cost of deciding about blocks: the kernel's own decisions, made alone, against the whole kernel, on one thread.
//
//     attune_deciding [<length> <window>]...     default: 4096 256 131072 4096
#include "deciding_variants.hpp"

#include <attune/runtime.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

template <class F> double seconds_of(int repeats, F f) {
    double best = 1e30;
    for (int i = 0; i < repeats; ++i) {
        const auto start = std::chrono::steady_clock::now();
        f();
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
}

struct problem {
    std::int64_t length, depth = 64;
    int window;
    std::vector<float> q, k, v, out;
    std::vector<std::int32_t> document, from, to;
    std::vector<std::uint8_t> is_global;

    problem(std::int64_t n, int w)
        : length(n),
          window(w),
          out(static_cast<std::size_t>(n * depth)),
          document(static_cast<std::size_t>(n)),
          from(document),
          to(document),
          is_global(document.size()) {
        std::mt19937 random(1);
        std::normal_distribution<float> normal;
        for (auto* data : {&q, &k, &v}) {
            data->resize(out.size());
            for (float& x : *data) x = normal(random);
        }
        for (std::size_t i = 0; i < document.size(); ++i) {
            const int position = static_cast<int>(i);
            document[i] = position / (2 * w), is_global[i] = i % 2000 == 3;
            from[i] = std::max(0, position - w + static_cast<int>(random() % 50)), to[i] = position + 1;
        }
    }

    attune::tensor rows(std::vector<float>& data) const { return {data.data(), {1, 1, length, depth}}; }

    /// `extra`: what the variant reads besides.
    template <const auto& Graph, class... Extra> void measure(const char* name, const Extra&... extra) {
        namespace dsl = attune::dsl;
        const auto call = attune::prepare<Graph>(dsl::q = rows(q), dsl::k = rows(k), dsl::v = rows(v),
                                                 dsl::out = rows(out), extra...);
        call();
        const int repeats = length > 20000 ? 2 : 7;
        attune::block_map map = call.blocks();
        const double whole = seconds_of(repeats, [&] { call(); }),
                     deciding = seconds_of(3 * repeats, [&] { map = call.blocks(); });
        const double blocks = static_cast<double>(map.query_blocks) * static_cast<double>(map.key_blocks);
        std::printf("%8lld %-12s %10.2f ms %10.3f ms %7.2f %% %12.0f blocks, %5.1f %% visited, %6.2f ns a block\n",
                    static_cast<long long>(length), name, whole * 1e3, deciding * 1e3, 100 * deciding / whole, blocks,
                    100.0 * static_cast<double>(map.visited()) / blocks, 1e9 * deciding / blocks);
    }

    void measure_all() {
        const attune::tensor d(document.data(), {length}),
            g(attune::element_type::boolean, static_cast<void*>(is_global.data()), std::vector<std::int64_t>{length});
        if (length <= 20000) measure<bench::decides_causal>("causal");
        measure<bench::decides_window>("window", bench::w = window);
        measure<bench::decides_documents>("documents", bench::document = d);
        measure<bench::decides_longformer>("longformer", bench::w = window, bench::is_global = g);
        measure<bench::decides_ranges>("ranges", bench::from = attune::tensor(from.data(), {length}),
                                       bench::to = attune::tensor(to.data(), {length}));
    }
};

}  // namespace

int main(int argc, char** argv) {
    setenv("ATTUNE_THREADS", "1", 1);
    std::printf("%8s %-12s %13s %13s %9s\n", "length", "mask", "kernel", "deciding", "share");
    if (argc < 3) {
        problem(4096, 256).measure_all();
        problem(131072, 4096).measure_all();
    }
    for (int i = 1; i + 1 < argc; i += 2) problem(std::atoll(argv[i]), std::atoi(argv[i + 1])).measure_all();
}
