// Attention between products whose OpenMP threads spin, as a BLAS has them: microseconds of the 30 calls of one token,
// the fastest and the median, by who does their tasks. Usage: spinning_threads [threads [tokens]]
#include <attune/common.hpp>
#include <attune/runtime.hpp>

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using namespace attune::detail;
using clock_type = std::chrono::steady_clock;

// A small Llama: 9 query heads over 3 key heads of depth 64, 30 layers of width 576.
constexpr std::int64_t layers = 30, heads = 9, key_heads = 3, depth = 64, width = 576, hidden = 1536;

named_argument view(std::string_view name, attune::tensor t) {
    return {.name = name, .is = named_argument::form::view, .view = t};
}

struct model {
    explicit model(std::int64_t keys) : keys(keys), q(heads * depth, 0.5f), out(q.size()) {
        for (std::int64_t layer = 0; layer < layers; ++layer)
            caches.emplace_back(static_cast<std::size_t>(2 * key_heads * keys * depth), 0.25f);
        call = prepare(table_of<attune::common::decode_attention>(),
                       std::vector{view("q", {q.data(), {1, heads, 1, depth}}), view("k", k(0)), view("v", v(0)),
                                   view("out", {out.data(), {1, heads, 1, depth}})},
                       {});
    }
    attune::tensor k(std::size_t layer) { return {caches[layer].data(), {1, key_heads, keys, depth}}; }
    attune::tensor v(std::size_t layer) {
        return {caches[layer].data() + key_heads * keys * depth, {1, key_heads, keys, depth}};
    }
    void attend(std::size_t layer) {
        const named_argument others[] = {view("k", k(layer)), view("v", v(layer))};
        attune::detail::call(*call, others);
    }
    std::int64_t keys;
    std::vector<float> q, out;
    std::vector<std::vector<float>> caches;
    std::shared_ptr<const prepared> call;
};

std::vector<float> weights(hidden* width, 0.01f), x(width, 1.0f), y(hidden);
void rows_of_product(std::int64_t row) {
    float sum = 0;
    for (std::int64_t i = 0; i < width; ++i)
        sum += weights[static_cast<std::size_t>(row * width + i)] * x[static_cast<std::size_t>(i)];
    y[static_cast<std::size_t>(row)] = sum;
}
void product() {
#pragma omp parallel for schedule(static)
    for (std::int64_t row = 0; row < hidden; ++row) rows_of_product(row);
}

void report(const char* what, std::int64_t keys, std::vector<double>& all) {
    std::ranges::sort(all);
    std::printf("%6lld  %-34s %8.0f %8.0f\n", static_cast<long long>(keys), what, all.front(), all[all.size() / 2]);
    std::fflush(stdout);
    all.clear();
}

double since(clock_type::time_point start) {
    return std::chrono::duration<double, std::micro>(clock_type::now() - start).count();
}

}  // namespace

int main(int count, char** given) {
    const int threads = count > 1 ? std::atoi(given[1]) : 2, tokens = count > 2 ? std::atoi(given[2]) : 200;
    if (threads < 1 || threads > 256 || tokens < 1)
        return std::fprintf(stderr, "expected a number of threads from 1 to 256, and a number of tokens\n"), 1;
    omp_set_num_threads(threads);
    std::printf("%6s  %-34s %8s %8s\n", "keys", "us of attention, 30 layers", "fastest", "median");
    std::vector<double> all;
    for (const std::int64_t keys : {32, 512, 2048, 4096}) {
        model of(keys);
        // A call between two products, as a token has them.
        const auto apart = [&](const char* what) {
            for (int token = 0; token < tokens; ++token) {
                double spent = 0;
                for (std::size_t layer = 0; layer < layers; ++layer) {
                    product();
                    const auto start = clock_type::now();
                    of.attend(layer);
                    spent += since(start);
                }
                all.push_back(spent);
            }
            report(what, keys, all);
        };
        attune::set_threads(threads);
        apart("attune's own threads");
        attune::set_parallel_for([](int tasks, int most, const std::function<void(int)>& task) {
#pragma omp parallel for schedule(dynamic) num_threads(most)
            for (int i = 0; i < tasks; ++i) task(i);
        });
        apart("set_parallel_for, an OpenMP loop");
        attune::set_parallel_for({});

        attune::team team(threads, [] {
#pragma omp barrier
        });
        for (int token = 0; token < tokens; ++token) {
            double spent = 0;
#pragma omp parallel
            for (std::size_t layer = 0; layer < layers; ++layer) {
#pragma omp for schedule(static)
                for (std::int64_t row = 0; row < hidden; ++row) rows_of_product(row);
                const auto start = clock_type::now();
                team.run(omp_get_thread_num(), [&] { of.attend(layer); });
                if (omp_get_thread_num() == 0) spent += since(start);
            }
            all.push_back(spent);
        }
        report("team, within the region", keys, all);
        attune::set_threads(1);
        apart("one thread");
        attune::set_threads(0);
    }
}
