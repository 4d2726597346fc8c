// Times kernels on the first device of ATTUNE_GPU_TARGET, with all tensors in its memory. One JSON object a line: the
// case, milliseconds of a call, useful TFLOP/s (of the pairs that the mask leaves), TB/s of what has to be read and
// written once (decode, one query over 16 times as many keys, waits for that), and the largest difference of some rows
// from double precision.
#include "../benchmarks/variants.hpp"
#include "device_memory.hpp"

#include <attune/runtime.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace {
using namespace attune;

struct call_sizes {
    std::int64_t batches, queries, keys, heads, key_heads, depth;
};

/// Which keys a query sees, from the first up to the one behind the last, and what the formula makes of a score.
struct benchmark_case {
    const char* name;
    std::function<std::pair<std::int64_t, std::int64_t>(std::int64_t query)> keys_of;
    std::function<double(double score, std::int64_t query, std::int64_t key)> score = [](double s, auto, auto) {
        return s;
    };
};

struct benchmark_options {
    std::int64_t length = 4096, heads = 32, tokens = 0;
    double seconds = 1;
    std::vector<int> depths{64, 128};
    std::vector<std::string> cases{"full", "causal", "window", "documents_causal", "alibi", "softcap", "decode"};
    std::string dtype = "f32";
};

/// Random numbers, far more than a tile has, over and over.
template <class T> std::vector<T> normal(std::size_t count, std::size_t seed) {
    static const std::vector<T> drawn = [] {
        std::mt19937 random(1);
        std::normal_distribution<float> distribution;
        std::vector<T> values(1999993);  // a prime: no row meets its copy at the same place
        std::ranges::generate(values, [&] { return T(distribution(random)); });
        return values;
    }();
    std::vector<T> values(count);
    std::size_t at = seed * 611953 % drawn.size();
    for (T& value : values) {
        value = drawn[at];
        if (++at == drawn.size()) at = 0;
    }
    return values;
}

/// Half of the last place of an output between 2 and 4, and what the rounding of weights adds to it.
template <class T>
constexpr double tolerance = std::is_same_v<T, float>      ? 2e-5
                             : std::is_same_v<T, bfloat16> ? 0.01
                                                           : 0.00125;

template <class T> class timed_calls {
public:
    timed_calls(const support::device_memory& device, const call_sizes& its, double seconds)
        : device_(device),
          its_(its),
          seconds_(seconds),
          q_(normal<T>(count(its.heads, its.queries), 1)),
          k_(normal<T>(count(its.key_heads, its.keys), 2)),
          v_(normal<T>(count(its.key_heads, its.keys), 3)),
          out_(q_.size()),
          on_q_(made(q_, its.heads, its.queries)),
          on_k_(made(k_, its.key_heads, its.keys)),
          on_v_(made(v_, its.key_heads, its.keys)),
          on_out_(made(out_, its.heads, its.queries)) {}

    template <const auto& Graph, class... More> void time(const benchmark_case& its, More... more) {
        const options how{.context = device_.context, .stream = device_.stream, .wait = false};
        const auto measured = [&](int calls) {
            const auto start = std::chrono::steady_clock::now();
            for (int i = 0; i < calls; ++i)
                run<Graph>(dsl::q = on_q_, dsl::k = on_k_, dsl::v = on_v_, more..., dsl::out = on_out_, how);
            device_.wait();
            return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
        };
        const double first = measured(1), one = measured(1);  // the first compiles it
        std::vector<double> turns;
        const int calls = std::max(static_cast<int>(seconds_ / 5 / one), 1);
        for (int turn = 0; turn < 5; ++turn) turns.push_back(measured(calls));
        std::ranges::sort(turns);
        device_.read(on_out_, out_);
        print(its, turns[2], first, error_of(its));
    }

private:
    std::size_t count(std::int64_t heads, std::int64_t rows) const {
        return static_cast<std::size_t>(its_.batches * heads * rows * its_.depth);
    }
    tensor made(const std::vector<T>& values, std::int64_t heads, std::int64_t rows) const {
        return device_.make(values, {its_.batches, heads, rows, its_.depth});
    }
    /// Row `query` of the last head of the last batch, in double precision.
    std::vector<double> row_of(const benchmark_case& of, std::int64_t query) const;
    double error_of(const benchmark_case& of) const;
    void print(const benchmark_case& of, double seconds, double first, double error) const;

    const support::device_memory& device_;
    call_sizes its_;
    double seconds_;
    std::vector<T> q_, k_, v_, out_;
    tensor on_q_, on_k_, on_v_, on_out_;
};

template <class T> std::vector<double> timed_calls<T>::row_of(const benchmark_case& of, std::int64_t query) const {
    const auto depth = static_cast<std::size_t>(its_.depth);
    const T* const row = q_.data() + q_.size() - static_cast<std::size_t>(its_.queries - query) * depth;
    const std::size_t of_head = k_.size() - static_cast<std::size_t>(its_.keys) * depth;
    const auto [begin, end] = of.keys_of(query);
    std::vector<double> sums(depth), scores;
    for (std::int64_t key = begin; key < end; ++key) {
        double score = 0;
        for (std::size_t d = 0; d < depth; ++d)
            score += static_cast<double>(static_cast<float>(row[d])) *
                     static_cast<double>(static_cast<float>(k_[of_head + static_cast<std::size_t>(key) * depth + d]));
        scores.push_back(of.score(score / std::sqrt(static_cast<double>(depth)), query, key));
    }
    const double highest = std::ranges::max(scores);
    double total = 0;
    for (std::int64_t key = begin; key < end; ++key) {
        const double weight = std::exp(scores[static_cast<std::size_t>(key - begin)] - highest);
        total += weight;
        for (std::size_t d = 0; d < depth; ++d)
            sums[d] += weight *
                       static_cast<double>(static_cast<float>(v_[of_head + static_cast<std::size_t>(key) * depth + d]));
    }
    for (double& sum : sums) sum /= total;
    return sums;
}

template <class T> double timed_calls<T>::error_of(const benchmark_case& of) const {
    double worst = 0;
    for (const std::int64_t query : {std::int64_t{0}, its_.queries / 3, its_.queries - 1}) {
        const std::vector<double> right = row_of(of, query);
        const T* const got = out_.data() + out_.size() - static_cast<std::size_t>((its_.queries - query) * its_.depth);
        for (std::size_t d = 0; d < right.size(); ++d) {
            const double off = std::abs(right[d] - static_cast<double>(static_cast<float>(got[d])));
            worst = off <= worst ? worst : off;  // NaN stays
        }
    }
    return worst;
}

template <class T>
void timed_calls<T>::print(const benchmark_case& of, double seconds, double first, double error) const {
    double pairs = 0;
    for (std::int64_t query = 0; query < its_.queries; ++query) {
        const auto [begin, end] = of.keys_of(query);
        pairs += static_cast<double>(end - begin);
    }
    const double flops = 4.0 * static_cast<double>(its_.batches * its_.heads * its_.depth) * pairs,
                 bytes = 2.0 * sizeof(T) * static_cast<double>(q_.size() + k_.size());
    std::printf(
        R"({"case": "%s", "dtype": "%s", "batches": %lld, "queries": %lld, "length": %lld, "heads": %lld, "key_heads": %lld, "depth": %lld, "milliseconds": %.4f, )"
        R"("useful_tflops": %.3f, "useful_flops": %.6g, "terabytes_a_second": %.3f, "first_milliseconds": %.1f, "error": %.1e})"
        "\n",
        of.name, std::string(name_of(element_of<T>)).c_str(), static_cast<long long>(its_.batches),
        static_cast<long long>(its_.queries), static_cast<long long>(its_.keys), static_cast<long long>(its_.heads),
        static_cast<long long>(its_.key_heads), static_cast<long long>(its_.depth), seconds * 1e3,
        flops / seconds * 1e-12, flops, bytes / seconds * 1e-12, first * 1e3, error);
    std::fflush(stdout);
    if (!(error < tolerance<T>))
        throw std::runtime_error(std::string(of.name) + ": expected rows near double precision, got an error of " +
                                 std::to_string(error));
}

template <class T> void time_all(const benchmark_options& given) {
    const support::device_memory device(ATTUNE_GPU_TARGET);
    const std::int64_t length = given.length, heads = given.heads;
    std::vector<int> documents(static_cast<std::size_t>(length));
    for (std::int64_t i = 0; i < length; ++i)
        documents[static_cast<std::size_t>(i)] = static_cast<int>(i * 8 / length);  // eight of them
    std::vector<float> slopes(static_cast<std::size_t>(heads));
    for (std::size_t h = 0; h < slopes.size(); ++h)
        slopes[h] = std::exp2(-8.0f * static_cast<float>(h + 1) / static_cast<float>(heads));
    const tensor document = device.make(documents, {length}), slope = device.make(slopes, {heads});
    const auto before = [](std::int64_t i) { return std::pair<std::int64_t, std::int64_t>{0, i + 1}; };
    const double last_slope = static_cast<double>(slopes.back());
    const auto is_asked_for = [&](const char* name) { return std::ranges::count(given.cases, name) > 0; };
    for (const std::int64_t depth : given.depths) {
        const auto all_of = [](std::int64_t keys) {
            return [keys](std::int64_t) { return std::pair{std::int64_t{0}, keys}; };
        };
        if (given.cases != std::vector<std::string>{"decode"}) {
            timed_calls<T> calls(
                device, {std::max<std::int64_t>(given.tokens / length, 1), length, length, heads, heads, depth},
                given.seconds);
            if (is_asked_for("full")) calls.template time<bench::full_attention>({"full", all_of(length)});
            if (is_asked_for("causal")) calls.template time<bench::causal_attention>({"causal", before});
            if (is_asked_for("window"))
                calls.template time<bench::window_attention>(
                    {"window", [](std::int64_t i) { return std::pair{std::max<std::int64_t>(i - 255, 0), i + 1}; }});
            if (is_asked_for("documents_causal"))
                calls.template time<bench::documents_causal_attention>(
                    {"documents_causal",
                     [=](std::int64_t i) { return std::pair{(i * 8 / length * length + 7) / 8, i + 1}; }},
                    bench::document = document);
            if (is_asked_for("alibi"))
                calls.template time<bench::alibi_attention>({"alibi", before,
                                                             [=](double s, std::int64_t i, std::int64_t j) {
                                                                 return s + last_slope * static_cast<double>(j - i);
                                                             }},
                                                            bench::slopes = slope);
            if (is_asked_for("softcap"))
                calls.template time<bench::softcap_attention>(
                    {"softcap", before, [](double s, auto, auto) { return 30 * std::tanh(s / 30); }});
        }
        const std::int64_t key_heads = heads % 4 == 0 ? heads / 4 : heads;
        if (is_asked_for("decode"))
            timed_calls<T>(device, {1, 1, 16 * length, heads, key_heads, depth}, given.seconds)
                .template time<bench::full_attention>({"decode", all_of(16 * length)});
    }
}

}  // namespace

int main(int argc, char** argv) {
    benchmark_options given;
    CLI::App app{"Rates of kernels on the first device of " ATTUNE_GPU_TARGET
                 ", one JSON object a line. Status 77 where there is none, 1 where a kernel's rows are wrong."};
    app.add_option("length", given.length, "queries and keys; decode has one query and 16 times as many keys")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("heads", given.heads, "heads; decode has a key head for four of them")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("seconds", given.seconds, "seconds a case")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--dtype", given.dtype, "the type of q, k, v and the output")
        ->capture_default_str()
        ->check(CLI::IsMember(ATTUNE_GPU_TYPES));
    app.add_option("--tokens", given.tokens, "as many batches as have so many queries; else one")
        ->capture_default_str();
    app.add_option("--depths", given.depths, "depths, of 64 and 128")
        ->capture_default_str()
        ->check(CLI::IsMember({64, 128}));
    app.add_option("--cases", given.cases, "cases")->capture_default_str()->check(CLI::IsMember(given.cases));
    CLI11_PARSE(app, argc, argv);
    try {
        if (const auto lacks = kernels<bench::full_attention>().entries.front().missing; !lacks.empty()) {
            std::fprintf(stderr, "no %s device here: lacks %s\n", ATTUNE_GPU_TARGET, std::string(lacks).c_str());
            return 77;
        }
        given.dtype == "f32"    ? time_all<float>(given)
        : given.dtype == "bf16" ? time_all<bfloat16>(given)
                                : time_all<float16>(given);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
