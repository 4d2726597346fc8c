// How a call would spread over more cores than there are here: ninja many_cores && bin/many_cores
//
// Each task of a call is timed alone, on one thread. Then so many threads are made believe, which take the tasks from
// attune's counter in attune's order; what they need is compared with an equal share each. What one machine's memory
// and caches make of many threads is not in it. The last column is measured: two threads.
#include <attune/common.hpp>
#include <attune/runtime.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <queue>
#include <string>
#include <vector>

namespace {

using namespace attune::common;
using clock = std::chrono::steady_clock;

constexpr int threads[] = {2, 8, 32, 64, 128};

double seconds_of(const std::function<void()>& work) {
    const auto start = clock::now();
    work();
    return std::chrono::duration<double>(clock::now() - start).count();
}

/// Until the last of the tasks is done, each taken by the thread that is free first.
double makespan(const std::vector<double>& tasks, int workers) {
    std::priority_queue<double, std::vector<double>, std::greater<>> free_at;
    for (int i = 0; i < workers; ++i) free_at.push(0);
    double end = 0;
    for (const double seconds : tasks) {
        const double done = free_at.top() + seconds;
        free_at.pop();
        free_at.push(done);
        end = std::max(end, done);
    }
    return end;
}

struct shape {
    std::int64_t batches, heads, key_heads, queries, keys;
};

template <const auto& Variant> void row(const std::string& name, const shape& s) {
    constexpr std::int64_t depth = 64;
    std::vector<float> q_data(static_cast<std::size_t>(s.batches * s.heads * s.queries * depth), 0.5f),
        out_data(q_data.size()), k_data(static_cast<std::size_t>(s.batches * s.key_heads * s.keys * depth), 0.25f),
        v_data(k_data);
    const attune::tensor Q(q_data.data(), {s.batches, s.heads, s.queries, depth}),
        K(k_data.data(), {s.batches, s.key_heads, s.keys, depth}),
        V(v_data.data(), {s.batches, s.key_heads, s.keys, depth}),
        O(out_data.data(), {s.batches, s.heads, s.queries, depth});
    const auto call = [&](const attune::options& how) { attune::run<Variant>(q = Q, k = K, v = V, out = O, how); };

    std::vector<std::vector<double>> loops;
    const attune::parallel_for timed = [&loops](int count, int, const std::function<void(int)>& task) {
        loops.emplace_back();
        for (int i = count; i-- > 0;) loops.back().push_back(seconds_of([&] { task(i); }));
    };
    call({.threads = 128, .pool = &timed});  // to warm up
    loops.clear();
    call({.threads = 128, .pool = &timed});
    std::size_t tasks = 0;
    double work = 0;
    for (const auto& loop : loops) {
        tasks += loop.size();
        for (const double seconds : loop) work += seconds;
    }
    fmt::print("{:8} {:18} {:6} {:8.0f}", name,
               fmt::format("{}x{}:{}x{}x{}", s.batches, s.heads, s.key_heads, s.queries, s.keys), tasks,
               work / static_cast<double>(tasks) * 1e6);
    for (const int count : threads) {
        double spent = 0;
        for (const auto& loop : loops) spent += makespan(loop, count);
        fmt::print(" {:6.0f} %", 100 * work / (spent * count));
    }
    const auto best_of = [&](int count) {
        double best = 1e9;
        for (int i = 0; i < 5; ++i) best = std::min(best, seconds_of([&] { call({.threads = count}); }));
        return best;
    };
    const double one = best_of(1);
    fmt::print(" {:7.0f} %\n", 100 * one / (2 * best_of(2)));
}

}  // namespace

int main() {
    fmt::print("{:8} {:18} {:>6} {:>8}", "variant", "shape", "tasks", "us each");
    for (const int count : threads) fmt::print(" {:>8}", fmt::format("{} thr.", count));
    fmt::print(" {:>9}\n", "2, timed");
    for (const shape& s : {shape{1, 8, 8, 2048, 2048},
                           {8, 12, 12, 512, 512},
                           {1, 32, 8, 4096, 4096},
                           {64, 12, 12, 128, 128},
                           {1, 1, 1, 8192, 8192}}) {
        row<plain_attention>("plain", s);
        row<causal_attention>("causal", s);
    }
    row<decode_attention>("decode", {1, 32, 8, 1, 16384});
    row<decode_attention>("decode", {16, 32, 8, 1, 4096});
}
