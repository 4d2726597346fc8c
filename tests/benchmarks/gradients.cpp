// What forward passes and their gradients take, and their share of the peak: gradient_benchmark [--json] [--threads N]
// [--repeats N] [--only ROW]. gradients.py has PyTorch beside it. Rates count 2.5 times the forward's useful
// multiply-adds, as the field does.
#include "gradient_variants.hpp"
#include "peak.hpp"

#include <attune/runtime.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <random>
#include <string_view>
#include <vector>

namespace {

using attune::tensor;
using namespace attune::dsl;

struct shape {
    std::int64_t batches, heads, key_heads, length, depth;
};

/// Rows begin where PyTorch's do: a vector of 64 bytes that lies across two lines of the cache takes two loads.
template <class T> struct aligned {
    using value_type = T;
    static constexpr std::align_val_t lines{64};
    T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), lines)); }
    void deallocate(T* memory, std::size_t) { ::operator delete(memory, lines); }
    bool operator==(const aligned&) const = default;
};
using numbers = std::vector<float, aligned<float>>;

numbers drawn(std::int64_t size) {
    static std::mt19937 random(1);
    std::normal_distribution<float> normal;
    numbers all(static_cast<std::size_t>(size));
    for (float& x : all) x = normal(random);
    return all;
}

/// The fastest of some calls, in seconds.
double fastest(const std::function<void()>& call, int repeats) {
    double best = 1e9;
    for (int i = 0; i <= repeats; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        call();
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
        if (i > 0) best = std::min(best, taken.count());
    }
    return best;
}

struct tensors {
    explicit tensors(const shape& s)
        : rows({s.batches, s.heads, s.length, s.depth}),
          key_rows({s.batches, s.key_heads, s.length, s.depth}),
          of_rows({s.batches, s.heads, s.length}),
          of_heads({s.heads}) {
        const std::int64_t all = s.batches * s.heads * s.length, keys = s.batches * s.key_heads * s.length * s.depth;
        for (auto* each : {&q, &out, &dout, &dq}) *each = drawn(all * s.depth);
        for (auto* each : {&k, &v, &dk, &dv}) *each = drawn(keys);
        lse = drawn(all), slopes = drawn(s.heads), dslopes = slopes;
        for (float& x : slopes) x *= 0.1f;
    }
    tensor row(numbers& x) const { return {x.data(), rows}; }
    tensor key(numbers& x) const { return {x.data(), key_rows}; }
    std::vector<std::int64_t> rows, key_rows, of_rows, of_heads;
    numbers q, k, v, out, lse, dout, dq, dk, dv, slopes, dslopes;
};

template <const auto& Forward, const auto& Gradient>
nlohmann::ordered_json timed(std::string_view name, const shape& s, bool is_causal, int repeats,
                             const attune::options& how, attune::support::peaks& peaks) {
    tensors x(s);
    constexpr bool has_slopes = attune::dsl::ir_of<Forward>.inputs.size() > 3;
    const tensor L(x.lse.data(), x.of_rows), S(x.slopes.data(), x.of_heads), dS(x.dslopes.data(), x.of_heads);
    const auto forward = [&](auto... more) {
        attune::run<Forward>(q = x.row(x.q), k = x.key(x.k), v = x.key(x.v), out = x.row(x.out), lse = L, more..., how);
    };
    const auto backward = [&](auto... more) {
        attune::run<Gradient>(q = x.row(x.q), k = x.key(x.k), v = x.key(x.v), out = x.row(x.out), lse = L,
                              d(out) = x.row(x.dout), d(q) = x.row(x.dq), d(k) = x.key(x.dk), d(v) = x.key(x.dv),
                              more..., how);
    };
    double ahead = 0, back = 0;
    if constexpr (has_slopes) {
        ahead = fastest([&] { forward(bench::trained_slopes = S); }, repeats);
        back = fastest([&] { backward(bench::trained_slopes = S, d(bench::trained_slopes) = dS); }, repeats);
    } else {
        ahead = fastest([&] { forward(); }, repeats), back = fastest([&] { backward(); }, repeats);
    }
    const double length = static_cast<double>(s.length),
                 pairs = is_causal ? length * (length + 1) / 2 : length * length;
    const double rate = 10 * pairs * static_cast<double>(s.depth * s.heads * s.batches) / back * 1e-9;
    const std::string_view level = attune::kernels<Gradient>().entries.front().target;
    const int threads = how.threads > 0 ? how.threads : attune::threads();
    const double share = peaks.share(rate, attune::support::instruction_of(level, "{}"), threads);
    return {{"case", name},
            {"batches", s.batches},
            {"heads", s.heads},
            {"key_heads", s.key_heads},
            {"length", s.length},
            {"depth", s.depth},
            {"level", level},
            {"threads", threads},
            {"forward_ms", ahead * 1e3},
            {"gradient_ms", back * 1e3},
            {"gflops", rate},
            {"of_peak", share},
            {"both_over_forward", (ahead + back) / ahead}};
}

}  // namespace

int main(int count, char** arguments) {
    bool json = false;
    int repeats = 3, only = -1;
    attune::options how;
    for (int i = 1; i < count; ++i) {
        const std::string_view said = arguments[i];
        const int number = i + 1 < count ? std::atoi(arguments[i + 1]) : 0;
        if (said == "--json")
            json = true;
        else if (said == "--threads" && number > 0)
            how.threads = number, ++i;
        else if (said == "--repeats" && number > 0)
            repeats = number, ++i;
        else if (said == "--only" && i + 1 < count)
            only = number, ++i;
        else
            return std::fprintf(stderr, "expected --json, --threads N, --repeats N or --only ROW, got %s\n",
                                arguments[i]),
                   2;
    }
    attune::support::peaks peaks;
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    const auto add = [&](const nlohmann::ordered_json& row) {
        if (!json)
            std::printf(
                "%-8s %2d x %2d / %d, %5d x %3d: forward %8.2f ms, gradient %8.2f ms, %6.1f GFLOP/s, %3.0f %% of the "
                "peak, both %.2f x the forward\n",
                row["case"].get<std::string>().c_str(), row["batches"].get<int>(), row["heads"].get<int>(),
                row["key_heads"].get<int>(), row["length"].get<int>(), row["depth"].get<int>(),
                row["forward_ms"].get<double>(), row["gradient_ms"].get<double>(), row["gflops"].get<double>(),
                100 * row["of_peak"].get<double>(), row["both_over_forward"].get<double>());
        all.push_back(row);
    };
    int row = -1;
    const auto asked = [&] { return ++row, only < 0 || row == only; };
    for (const shape& s :
         {shape{1, 8, 8, 2048, 64}, shape{8, 8, 8, 512, 64}, shape{1, 8, 2, 2048, 64}, shape{1, 8, 8, 2048, 128}}) {
        if (asked()) add(timed<bench::trained_full, bench::full_gradient>("full", s, false, repeats, how, peaks));
        if (asked()) add(timed<bench::trained_causal, bench::causal_gradient>("causal", s, true, repeats, how, peaks));
        if (asked()) add(timed<bench::trained_alibi, bench::alibi_gradient>("alibi", s, true, repeats, how, peaks));
    }
    if (json) std::printf("%s\n", all.dump(2).c_str());
}
