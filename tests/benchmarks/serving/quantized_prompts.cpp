// Prompts whose keys and values the call quantises itself, beside prompts of f32 and of bf16 over the same tensors:
// calls in turns, and the errors of all against double precision. All keys have one large channel in common, as those
// of models have, which smoothed(k) takes out.
//
//     attune_quantized_prompts --queries 2048 --heads 8 --depth 64
#include "turns.hpp"

#include "kernel/kernel_list.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/catalogue/quantized.hpp>
#include <attune/runtime.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {
using namespace attune::dsl;
using attune::catalogue::sage_scores;

inline constexpr auto plain = softmax(mask(q * t(k) * rsqrt(depth), causal)) * v;
inline constexpr auto by_block = mask(queries(quantized<i8>(q)) * t(keys(quantized<i8, 64>(k))) * rsqrt(depth), causal);
inline constexpr auto of_scores = softmax(mask(sage_scores<64>(q, k), causal)) * v;
inline constexpr auto rough = quantized<u8>(softmax(by_block)) * values(quantized<i8, 64>(v));
inline constexpr auto sage = quantized<u8>(softmax(mask(sage_scores<64>(q, k), causal))) * values(quantized<i8, 64>(v));

struct sizes {
    std::int64_t heads = 8, key_heads = 8, queries = 2048, depth = 64;
    double common = 3;
    int threads = 2, rounds = 7;
    bool json{};
};

struct tensors {
    explicit tensors(const sizes& s) : of(s) {
        std::minstd_rand random(7);
        std::normal_distribution<float> normal;
        const auto draw = [&](std::vector<float>& to, std::int64_t heads, double common) {
            to.resize(static_cast<std::size_t>(heads * s.queries * s.depth));
            for (std::size_t i = 0; i < to.size(); ++i)
                to[i] = normal(random) + (i % static_cast<std::size_t>(s.depth) == 5 ? static_cast<float>(common) : 0);
        };
        draw(q, s.heads, 0), draw(k, s.key_heads, s.common), draw(v, s.key_heads, 0);
        for (const auto& [from, to] : {std::pair(&q, &narrow_q), {&k, &narrow_k}, {&v, &narrow_v}})
            for (const float x : *from) to->push_back(attune::bfloat16(x));
        out.resize(q.size()), narrow_out.resize(q.size());
    }
    std::vector<attune::detail::named_argument> arguments(bool in_bf16) {
        const std::vector<std::int64_t> rows{1, of.heads, of.queries, of.depth},
            of_keys{1, of.key_heads, of.queries, of.depth};
        const auto named = [&](auto& q_, auto& k_, auto& v_,
                               auto& out_) -> std::vector<attune::detail::named_argument> {
            return {{.name = "q", .view = attune::tensor(q_.data(), rows)},
                    {.name = "k", .view = attune::tensor(k_.data(), of_keys)},
                    {.name = "v", .view = attune::tensor(v_.data(), of_keys)},
                    {.name = "out", .view = attune::tensor(out_.data(), rows)}};
        };
        return in_bf16 ? named(narrow_q, narrow_k, narrow_v, narrow_out) : named(q, k, v, out);
    }
    /// A query of the first head, in double precision.
    std::vector<double> exact(std::int64_t query) const {
        const auto depth = static_cast<std::size_t>(of.depth), at = static_cast<std::size_t>(query);
        std::vector<double> scores, sums(depth);
        double sum = 0, maximum = -1e300;
        for (std::size_t key = 0; key <= at; ++key) {
            double score = 0;
            for (std::size_t d = 0; d < depth; ++d)
                score += static_cast<double>(q[at * depth + d]) * static_cast<double>(k[key * depth + d]);
            scores.push_back(score / std::sqrt(static_cast<double>(depth)));
            maximum = std::max(maximum, scores.back());
        }
        for (std::size_t key = 0; key <= at; ++key) {
            const double weight = std::exp(scores[key] - maximum);
            sum += weight;
            for (std::size_t d = 0; d < depth; ++d) sums[d] += weight * static_cast<double>(v[key * depth + d]);
        }
        for (double& x : sums) x /= sum;
        return sums;
    }

    const sizes of;
    std::vector<float> q, k, v, out;
    std::vector<attune::bfloat16> narrow_q, narrow_k, narrow_v, narrow_out;
};

struct timed_kernel {
    timed_kernel(std::string called, const attune::graph_ir& graph, const std::string& level, std::int64_t depth,
                 bool narrow)
        : name(std::move(called)), of{"bench::prompts", graph}, in_bf16(narrow) {
        const auto listed = attune::generators::kernels_of({&of, 1}, {.targets = {level},
                                                                      .dtypes = {narrow ? "bf16" : "f32"},
                                                                      .depths = {std::to_string(depth)},
                                                                      .shapes = {"prefill"}});
        scheduled = attune::generators::to_json(listed.front().request.schedule);
        made.emplace(listed.front());
    }
    timed_kernel(const timed_kernel&) = delete;

    std::string name, scheduled;
    attune::generators::variant of;
    bool in_bf16;
    std::optional<attune::generators::jit_kernel> made;
    std::vector<double> milliseconds{};
};

void print_errors(const timed_kernel& of, const tensors& call) {
    bench::errors found;
    for (std::int64_t query = 0; query < call.of.queries; query += 37) {
        const std::vector<double> right = call.exact(query);
        for (std::size_t d = 0; d < right.size(); ++d) {
            const std::size_t at = static_cast<std::size_t>(query) * right.size() + d;
            found.add(of.in_bf16 ? static_cast<float>(call.narrow_out[at]) : call.out[at], right[d]);
        }
    }
    found.print(of.name);
}

}  // namespace

int main(int argc, char** argv) {
    sizes s;
    std::string level;
    for (const attune::generators::level& each : attune::generators::levels())
        if (level.empty() && attune::runs(each.name)) level = each.name;
    CLI::App app{"Prompts, causal, whose keys and values are quantised by the call, beside f32 and bf16."};
    app.add_option("--heads", s.heads)->capture_default_str();
    app.add_option("--key-heads", s.key_heads)->capture_default_str();
    app.add_option("--queries", s.queries)->capture_default_str();
    app.add_option("--depth", s.depth)->capture_default_str();
    app.add_option("--common", s.common, "what channel 5 of all keys has in common")->capture_default_str();
    app.add_option("--threads", s.threads)->capture_default_str();
    app.add_option("--rounds", s.rounds)->capture_default_str();
    app.add_option("--level", level)->capture_default_str();
    app.add_flag("--json", s.json, "the medians alone, one object a line");
    CLI11_PARSE(app, argc, argv);
    try {
        tensors call(s);
        std::deque<timed_kernel> kernels;
        kernels.emplace_back("f32", ir_of<plain>, level, s.depth, false);
        kernels.emplace_back("bf16", ir_of<plain>, level, s.depth, true);
        kernels.emplace_back("q, k, weights and v in 8 bits, of f32", ir_of<rough>, level, s.depth, false);
        kernels.emplace_back("the same, k smoothed, of f32", ir_of<sage>, level, s.depth, false);
        kernels.emplace_back("the same, k smoothed, of bf16", ir_of<sage>, level, s.depth, true);
        kernels.emplace_back("q and k in 8 bits, k smoothed, of f32", ir_of<of_scores>, level, s.depth, false);
        for (const timed_kernel& each : kernels)
            if (!s.json) fmt::print("{:<42} {}\n", each.name, each.scheduled);
        bench::call_in_turns(
            kernels, s.rounds,
            [&](const timed_kernel& each) {
                attune::detail::call(each.made->table(), call.arguments(each.in_bf16), {.threads = s.threads});
            },
            [&](const timed_kernel& each) {
                if (!s.json) print_errors(each, call);
            });
        bench::print_times(kernels, s.json);
    } catch (const std::exception& problem) {
        fmt::print(stderr, "{}\n", problem.what());
        return 1;
    }
}
