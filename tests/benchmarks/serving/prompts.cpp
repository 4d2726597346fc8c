// Prompts over caches of codes: prefill whose products are of integers beside prefill of the same formula in f32, calls
// in turns, and the errors of both against double precision.
//
//     attune_prompts --queries 2048 --heads 8 --depth 64
#include "caches.hpp"
#include "turns.hpp"

#include "kernel/kernel_list.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/runtime.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace {

namespace caches = bench::caches;
using namespace attune::dsl;

inline constexpr auto hidden_eight =
    mask(queries(quantized<i8>(q)) *
             t(keys(as_real(caches::narrow<i8>::k8(b, h, kv_idx, d_idx)) * caches::narrow<i8>::k_scale(b, h, kv_idx))) *
             rsqrt(depth),
         causal);
inline constexpr auto hidden_four =
    mask(queries(quantized<i8>(q)) * t(caches::nibbles::keys_of_tokens) * rsqrt(depth), causal);
inline constexpr auto eight = quantized<u8>(softmax(hidden_eight)) * caches::narrow<i8>::cached_values;
inline constexpr auto eight_finer = quantized<i16>(softmax(hidden_eight)) * caches::narrow<i8>::cached_values;
inline constexpr auto eight_of_queries = softmax(hidden_eight) * caches::narrow<i8>::cached_values;
inline constexpr auto four = quantized<u8>(softmax(hidden_four)) * caches::nibbles::values_of_tokens;

struct sizes {
    std::int64_t heads = 8, queries = 2048, depth = 64;
    int threads = 2, rounds = 7;
    bool json{};
    std::vector<std::int64_t> rows() const { return {1, heads, queries, depth}; }
    std::size_t elements() const { return static_cast<std::size_t>(heads * queries * depth); }
};

/// Random tensors of a call, as codes of eight and of four bits with a scale a token.
struct call_of_codes {
    explicit call_of_codes(const sizes& s) : of(s), q(s.elements()), out(s.elements()) {
        std::minstd_rand random(7);
        std::normal_distribution<float> normal;
        for (float& x : q) x = normal(random);
        for (auto* side : {&keys, &values}) {
            side->eight.resize(s.elements()), side->four.resize(s.elements() / 2);
            for (std::int8_t& x : side->eight)
                x = static_cast<std::int8_t>(std::clamp(normal(random) * 40, -127.f, 127.f));
            for (std::uint8_t& x : side->four) x = static_cast<std::uint8_t>(random() >> 8);
            for (std::int64_t i = 0; i < s.heads * s.queries; ++i)
                side->scales.push_back(0.02f + 0.01f * static_cast<float>(random() % 100) / 100);
        }
    }
    std::vector<attune::detail::named_argument> arguments(bool in_four) {
        using attune::tensor;
        const std::vector<std::int64_t> each{1, of.heads, of.queries}, half{1, of.heads, of.queries, of.depth / 2};
        const auto codes = [&](auto& side) {
            return in_four ? tensor(side.four.data(), half) : tensor(side.eight.data(), of.rows());
        };
        return {{.name = "q", .view = tensor(q.data(), of.rows())},
                {.name = in_four ? "k4" : "k8", .view = codes(keys)},
                {.name = in_four ? "v4" : "v8", .view = codes(values)},
                {.name = "k_scale", .view = tensor(keys.scales.data(), each)},
                {.name = "v_scale", .view = tensor(values.scales.data(), each)},
                {.name = "out", .view = tensor(out.data(), of.rows())}};
    }

    struct rows_of_codes {
        std::vector<std::int8_t> eight;
        std::vector<std::uint8_t> four;
        std::vector<float> scales;
    };
    const sizes of;
    std::vector<float> q, out;
    rows_of_codes keys, values;
};

/// What a formula rounds: queries to codes, and weights to so many steps of the largest one times its scale among the
/// keys of a block.
struct rounding {
    bool queries = false;
    int steps = 0, block = 1;  ///< no steps: weights are exact
};

/// The output of a query of the first head over the cache of eight bits, in double precision.
std::vector<double> exact(const call_of_codes& call, std::int64_t query, const rounding& rounds) {
    const auto depth = static_cast<std::size_t>(call.of.depth);
    std::vector<double> row(depth), sums(depth);
    double largest = 1e-30, sum = 0, maximum = -1e300;
    for (std::size_t d = 0; d < depth; ++d) {
        row[d] = call.q[static_cast<std::size_t>(query) * depth + d];
        largest = std::max(largest, std::abs(row[d]));
    }
    for (double& x : row)
        if (rounds.queries) x = std::nearbyint(x / (largest / 127)) * (largest / 127);
    std::vector<double> scores;
    for (std::size_t k = 0; k <= static_cast<std::size_t>(query); ++k) {
        double score = 0;
        for (std::size_t d = 0; d < depth; ++d) score += row[d] * call.keys.eight[k * depth + d];
        scores.push_back(score * call.keys.scales[k] / std::sqrt(static_cast<double>(depth)));
        maximum = std::max(maximum, scores.back());
    }
    for (std::size_t first = 0; first < scores.size(); first += static_cast<std::size_t>(rounds.block)) {
        const std::size_t end = std::min(first + static_cast<std::size_t>(rounds.block), scores.size());
        double step = 0;
        for (std::size_t k = first; k < end; ++k) {
            sum += std::exp(scores[k] - maximum);
            scores[k] = std::exp(scores[k] - maximum) * call.values.scales[k];
            step = std::max(step, scores[k] / std::max(rounds.steps, 1));
        }
        for (std::size_t k = first; k < end; ++k) {
            const double weight = rounds.steps > 0 ? std::nearbyint(scores[k] / step) * step : scores[k];
            for (std::size_t d = 0; d < depth; ++d) sums[d] += weight * call.values.eight[k * depth + d];
        }
    }
    for (double& x : sums) x /= sum;
    return sums;
}

struct timed_kernel {
    timed_kernel(std::string called, const attune::graph_ir& graph, const std::string& level, std::int64_t depth,
                 bool in_four, const std::string& schedule, bool in_f32)
        : name(std::move(called)), of{"bench::prompts", graph}, four(in_four) {
        auto listed = attune::generators::kernels_of(
            {&of, 1},
            {.targets = {level}, .dtypes = {"f32"}, .depths = {std::to_string(depth)}, .shapes = {"prefill"}});
        auto& request = listed.front().request;
        if (in_f32) {
            attune::generators::level without = *request.target;
            without.integers = attune::generators::integer_products::none;
            auto plain = request;
            plain.target = &without;
            request.schedule = attune::generators::default_prefill(plain);
        } else if (!schedule.empty()) {
            request.schedule = attune::generators::schedule_from_json(schedule, *request.target);
        }
        scheduled = attune::generators::to_json(request.schedule);
        made.emplace(listed.front());
    }
    timed_kernel(const timed_kernel&) = delete;

    std::string name, scheduled;
    attune::generators::variant of;
    bool four;
    std::optional<attune::generators::jit_kernel> made;
    std::vector<double> milliseconds{};
};

/// The largest error, and the root of the mean square, over some queries: of a call's output, or of roundings alone.
void print_errors(const std::string& what, const call_of_codes& call, const std::vector<float>* out,
                  const rounding& rounds = {}) {
    bench::errors found;
    for (std::int64_t query = 0; query < call.of.queries; query += 37) {
        const std::vector<double> right = exact(call, query, {}),
                                  stated = out ? std::vector<double>() : exact(call, query, rounds);
        for (std::size_t d = 0; d < right.size(); ++d)
            found.add(out ? (*out)[static_cast<std::size_t>(query) * right.size() + d] : stated[d], right[d]);
    }
    found.print(what);
}

}  // namespace

int main(int argc, char** argv) {
    sizes s;
    std::string level, schedule;
    for (const attune::generators::level& each : attune::generators::levels())
        if (level.empty() && attune::runs(each.name)) level = each.name;
    CLI::App app{"Prompts over caches of codes, causal: products of integers beside those of f32."};
    app.add_option("--heads", s.heads)->capture_default_str();
    app.add_option("--queries", s.queries)->capture_default_str();
    app.add_option("--depth", s.depth)->capture_default_str();
    app.add_option("--threads", s.threads)->capture_default_str();
    app.add_option("--rounds", s.rounds)->capture_default_str();
    app.add_option("--level", level)->capture_default_str();
    app.add_flag("--json", s.json, "the medians alone, one object a line");
    app.add_option("--schedule", schedule, "of the kernels with products of integers; else the default");
    CLI11_PARSE(app, argc, argv);
    try {
        call_of_codes call(s);
        std::deque<timed_kernel> kernels;
        kernels.emplace_back("i8, in f32", ir_of<eight>, level, s.depth, false, "", true);
        kernels.emplace_back("i8, queries in i8", ir_of<eight_of_queries>, level, s.depth, false, schedule, false);
        kernels.emplace_back("the same, weights in u8", ir_of<eight>, level, s.depth, false, schedule, false);
        kernels.emplace_back("the same, weights in i16", ir_of<eight_finer>, level, s.depth, false, schedule, false);
        kernels.emplace_back("4 bits, in f32", ir_of<four>, level, s.depth, true, "", true);
        kernels.emplace_back("4 bits, in i8 and u8", ir_of<four>, level, s.depth, true, schedule, false);
        for (const timed_kernel& each : kernels)
            if (!s.json) fmt::print("{:<42} {}\n", each.name, each.scheduled);
        bench::call_in_turns(
            kernels, s.rounds,
            [&](const timed_kernel& each) {
                attune::detail::call(each.made->table(), call.arguments(each.four), {.threads = s.threads});
            },
            [&](const timed_kernel& each) {
                if (!each.four && !s.json) print_errors(each.name, call, &call.out);
            });
        if (!s.json) {
            print_errors("queries rounded, in double", call, nullptr, {.queries = true});
            for (const int block : {64, 128, 256})
                print_errors(fmt::format("and weights in u8, blocks of {}", block), call, nullptr,
                             {.queries = true, .steps = 255, .block = block});
        }
        bench::print_times(kernels, s.json);
    } catch (const std::exception& problem) {
        fmt::print(stderr, "{}\n", problem.what());
        return 1;
    }
}
