// Times kernels on the first device of ATTUNE_GPU_TARGET, with all tensors in its memory: gpu_benchmark [length]
// [heads] [seconds a case]. One JSON object a line: the case, milliseconds of a call, useful TFLOP/s (of the pairs that
// the mask leaves), TB/s of what has to be read and written once (decode, one query over 16 times as many keys, waits
// for that), and the largest difference of some rows from double precision.
#include "../benchmarks/variants.hpp"
#include "device_memory.hpp"

#include <attune/runtime.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace {
using namespace attune;
using visible_keys = std::function<bool(std::int64_t query, std::int64_t key)>;

struct call_sizes {
    std::int64_t queries, keys, heads, key_heads, depth;
};

std::vector<float> normal(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> distribution;
    std::vector<float> values(count);
    std::ranges::generate(values, [&] { return distribution(random); });
    return values;
}

/// Row `query` of the last head, in double precision.
std::vector<double> row_of(const call_sizes& its, const std::vector<float>& q, const std::vector<float>& k,
                           const std::vector<float>& v, std::int64_t query, const visible_keys& sees) {
    const auto head = static_cast<std::size_t>((its.heads - 1) * its.queries * its.depth),
               key_head = static_cast<std::size_t>((its.key_heads - 1) * its.keys * its.depth);
    const auto depth = static_cast<std::size_t>(its.depth);
    std::vector<double> sums(depth), weights(static_cast<std::size_t>(its.keys));
    double total = 0, highest = -1e300;
    for (const bool weighing : {false, true})
        for (std::int64_t key = 0; key < its.keys; ++key) {
            if (!sees(query, key)) continue;
            const auto at = static_cast<std::size_t>(key);
            double& weight = weights[at];
            if (!weighing) {
                for (std::size_t d = 0; d < depth; ++d)
                    weight += static_cast<double>(q[head + static_cast<std::size_t>(query) * depth + d]) *
                              static_cast<double>(k[key_head + at * depth + d]);
                weight /= std::sqrt(static_cast<double>(depth));
                highest = std::max(highest, weight);
                continue;
            }
            const double e = std::exp(weight - highest);
            total += e;
            for (std::size_t d = 0; d < depth; ++d) sums[d] += e * static_cast<double>(v[key_head + at * depth + d]);
        }
    for (double& sum : sums) sum /= total;
    return sums;
}

template <const auto& Graph, class... More>
void time_one(const char* name, const support::device_memory& device, const call_sizes& its, double seconds,
              const visible_keys& sees, More... more) {
    const auto count = static_cast<std::size_t>(its.heads * its.queries * its.depth),
               count_of_keys = static_cast<std::size_t>(its.key_heads * its.keys * its.depth);
    const std::vector<std::int64_t> shape{1, its.heads, its.queries, its.depth},
        shape_of_keys{1, its.key_heads, its.keys, its.depth};
    const std::vector<float> q = normal(count, 1), k = normal(count_of_keys, 2), v = normal(count_of_keys, 3);
    std::vector<float> out(count);
    const tensor on_q = device.make(q, shape), on_k = device.make(k, shape_of_keys),
                 on_v = device.make(v, shape_of_keys), on_out = device.make(out, shape);
    const options how{.context = device.context, .stream = device.stream, .wait = false};
    const auto once = [&] { run<Graph>(dsl::q = on_q, dsl::k = on_k, dsl::v = on_v, more..., dsl::out = on_out, how); };
    const auto measured = [&](int calls) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < calls; ++i) once();
        device.wait();
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
    };
    const double first = measured(1), one = measured(1);  // the first compiles it
    std::vector<double> turns;
    const int calls = std::max(static_cast<int>(seconds / 5 / one), 1);
    for (int turn = 0; turn < 5; ++turn) turns.push_back(measured(calls));
    std::ranges::sort(turns);
    device.read(on_out, out);
    double worst = 0;
    for (const std::int64_t query : {std::int64_t{0}, its.queries / 3, its.queries - 1}) {
        const std::vector<double> right = row_of(its, q, k, v, query, sees);
        for (std::size_t d = 0; d < right.size(); ++d)
            worst = std::max(
                worst,
                std::abs(right[d] -
                         static_cast<double>(
                             out[static_cast<std::size_t>(((its.heads - 1) * its.queries + query) * its.depth) + d])));
    }
    double pairs = 0;
    for (std::int64_t i = 0; i < its.queries; ++i)
        for (std::int64_t j = 0; j < its.keys; ++j) pairs += sees(i, j);
    const double flops = 4.0 * static_cast<double>(its.heads * its.depth) * pairs,
                 bytes = 2.0 * sizeof(float) * static_cast<double>(count + count_of_keys);
    std::printf(
        R"({"case": "%s", "queries": %lld, "length": %lld, "heads": %lld, "key_heads": %lld, "depth": %lld, "milliseconds": %.4f, "useful_tflops": %.3f, "useful_flops": %.6g, )"
        R"("terabytes_a_second": %.3f, "first_milliseconds": %.1f, "error": %.1e})"
        "\n",
        name, static_cast<long long>(its.queries), static_cast<long long>(its.keys), static_cast<long long>(its.heads),
        static_cast<long long>(its.key_heads), static_cast<long long>(its.depth), turns[2] * 1e3,
        flops / turns[2] * 1e-12, flops, bytes / turns[2] * 1e-12, first * 1e3, worst);
    std::fflush(stdout);
    if (!(worst < 2e-5))
        throw std::runtime_error(std::string(name) + ": expected rows within 2e-5 of double precision");
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (const auto lacks = kernels<bench::full_attention>().entries.front().missing; !lacks.empty()) {
            std::fprintf(stderr, "no %s device here: lacks %s\n", ATTUNE_GPU_TARGET, std::string(lacks).c_str());
            return 77;
        }
        const std::int64_t length = argc > 1 ? std::atoll(argv[1]) : 4096, heads = argc > 2 ? std::atoll(argv[2]) : 32;
        const double seconds = argc > 3 ? std::atof(argv[3]) : 1.0;
        const support::device_memory device(ATTUNE_GPU_TARGET);
        std::vector<int> documents(static_cast<std::size_t>(length));
        for (std::int64_t i = 0; i < length; ++i)
            documents[static_cast<std::size_t>(i)] = static_cast<int>(i * 8 / length);  // eight of them
        const tensor document = device.make(documents, {length});
        const auto causal = [](std::int64_t i, std::int64_t j) { return i >= j; };
        for (const std::int64_t depth : {64, 128}) {
            const call_sizes its{length, length, heads, heads, depth};
            const auto all = [](std::int64_t, std::int64_t) { return true; };
            time_one<bench::full_attention>("full", device, its, seconds, all);
            time_one<bench::causal_attention>("causal", device, its, seconds, causal);
            time_one<bench::window_attention>("window", device, its, seconds,
                                              [](std::int64_t i, std::int64_t j) { return i >= j && i - j < 256; });
            time_one<bench::documents_causal_attention>(
                "documents_causal", device, its, seconds,
                [=](std::int64_t i, std::int64_t j) { return i >= j && i * 8 / length == j * 8 / length; },
                bench::document = document);
            const std::int64_t key_heads = heads % 4 == 0 ? heads / 4 : heads;
            time_one<bench::full_attention>("decode", device, {1, 16 * length, heads, key_heads, depth}, seconds, all);
        }
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
