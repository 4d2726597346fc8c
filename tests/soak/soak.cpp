// Calls of mixed variants and shapes from several threads for a long time, and what becomes of memory:
//   build/default/bin/attune_soak --seconds 3600
// prints a line of time, calls, resident memory and its peak at every hundredth of that, and fails where results change or memory grows after the
// first quarter. Of the process, not of the machine: /proc/self/statm.
#include <attune/common.hpp>
#include <attune/runtime.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using clock = std::chrono::steady_clock;
using namespace attune::common;

struct shape {
    std::int64_t batches, heads, key_heads, queries, keys, depth;
    auto operator<=>(const shape&) const = default;
};
constexpr shape shapes[] = {{1, 8, 8, 128, 128, 64}, {2, 8, 2, 1, 1000, 64}, {1, 4, 4, 300, 300, 128}, {3, 6, 3, 17, 77, 64}, {1, 32, 8, 4, 555, 128},
                            {1, 1, 1, 900, 900, 64}, {4, 2, 1, 65, 33, 128}, {1, 16, 16, 64, 0, 64},   {0, 4, 4, 8, 8, 64},     {1, 8, 4, 250, 1, 64}};

std::atomic<long> calls{0};
std::atomic<bool> wrong{false};
std::mutex mutex;
std::map<std::pair<shape, int>, double> sums;  // of a call's output, the same every time

void call_once(std::mt19937& random) {
    const shape s = shapes[random() % std::size(shapes)];
    const int variant = static_cast<int>(random() % 5);
    const auto filled = [](std::int64_t count, float step) {
        std::vector<float> data(static_cast<std::size_t>(count));
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = step * (static_cast<float>(i % 977) / 488 - 1);
        return data;
    };
    auto q_data = filled(s.batches * s.heads * s.queries * s.depth, 0.7f), k_data = filled(s.batches * s.key_heads * s.keys * s.depth, 1.3f),
         v_data = filled(s.batches * s.key_heads * s.keys * s.depth, 2.1f), rates = filled(s.heads, 0.1f), result = filled(s.batches * s.heads * s.queries * s.depth, 0);
    const attune::tensor Q(q_data.data(), {s.batches, s.heads, s.queries, s.depth}), K(k_data.data(), {s.batches, s.key_heads, s.keys, s.depth}),
        V(v_data.data(), {s.batches, s.key_heads, s.keys, s.depth}), S(rates.data(), {s.heads}), O(result.data(), {s.batches, s.heads, s.queries, s.depth});
    const attune::options how{.threads = static_cast<int>(random() % 3)};
    switch (variant) {
        case 0: attune::run<plain_attention>(q = Q, k = K, v = V, out = O, how); break;
        case 1: attune::run<causal_attention>(q = Q, k = K, v = V, out = O, how); break;
        case 2: attune::run<window_attention>(q = Q, k = K, v = V, left = 40, right = 3, out = O, how); break;
        case 3: attune::run<alibi_attention>(q = Q, k = K, v = V, slopes = S, out = O, how); break;
        default: attune::run<decode_attention>(q = Q, k = K, v = V, out = O, how); break;
    }
    if (random() % 50 == 0) {
        try {
            attune::run<plain_attention>(q = Q, k = K, v = V, out = Q, how);
            if (!result.empty()) wrong = true;  // an output on an input
        } catch (const attune::error&) {
            // refused, as it has to be
        }
        (void)attune::explain<plain_attention>(q = Q, k = K, v = V).json();
    }
    double sum = 0;
    for (const float x : result) sum += static_cast<double>(x);
    const std::lock_guard lock(mutex);
    const auto [at, first] = sums.emplace(std::pair(s, variant), sum);
    if (!first && std::memcmp(&at->second, &sum, sizeof sum) != 0) wrong = true;
    ++calls;
}

double resident_megabytes() {
    std::ifstream file("/proc/self/statm");
    long size = 0, pages = 0;
    file >> size >> pages;
    return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) * 1e-6;
}

}  // namespace

int main(int argc, char** argv) {
    double seconds = 20;
    int threads = 2;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (std::string_view(argv[i]) == "--seconds") seconds = std::atof(argv[i + 1]);
        if (std::string_view(argv[i]) == "--threads") threads = std::atoi(argv[i + 1]);
    }
    std::atomic<bool> over{false};
    std::vector<std::jthread> workers;
    for (int worker = 0; worker < threads; ++worker)
        workers.emplace_back([worker, &over] {
            std::mt19937 random(static_cast<unsigned>(worker));
            while (!over) call_once(random);
        });
    const auto start = clock::now();
    const auto passed = [&] { return std::chrono::duration<double>(clock::now() - start).count(); };
    double early = 0, late = 0;
    for (int mark = 1; mark <= 100; ++mark) {
        std::this_thread::sleep_until(start + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds * mark / 100)));
        const double now = resident_megabytes();
        (mark <= 25 ? early : late) = std::max(mark <= 25 ? early : late, now);
        std::printf("%8.1f s %10ld calls %8.1f MB %8.1f MB\n", passed(), calls.load(), now, std::max(early, late));
        std::fflush(stdout);
    }
    over = true;
    workers.clear();
    const bool grew = late > early * 1.1 + 8;
    std::printf("%ld calls; resident at most %.1f MB in the first quarter, %.1f MB after it; results %s\n", calls.load(), early, late, wrong ? "CHANGED" : "the same throughout");
    return wrong || grew ? 1 : 0;
}
