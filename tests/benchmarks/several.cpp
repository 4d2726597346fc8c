// Calls with several softmaxes beside calls of each alone, compiled in process and timed in turns: what is shared
// between them is read once, so one call should take no longer than all of them. The calls of each alone read the
// tensors of the one call: with tensors of their own they would find other things in the caches, and in other pages.
//
//     attune_several [--length 2048] [--keys 16384] [--heads 8] [--depth 64] [--repeats 7]
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime.hpp>
#include <attune/workload.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace attune::dsl;
namespace generators = attune::generators;

inline constexpr auto q2 = input<"q2", f32>(batch, head, query, depth);
inline constexpr auto k2 = input<"k2", f32>(batch, key_head, key, depth);
inline constexpr auto encoder_k = input<"encoder_k", f32>(batch, key_head, key, depth);
inline constexpr auto encoder_v = input<"encoder_v", f32>(batch, key_head, key, value_depth);
inline constexpr auto lambda = input<"lambda", f32>(head);
inline constexpr auto gate = input<"gate", f32>(batch, head, query);

inline constexpr auto scores = q * t(k) * rsqrt(depth);
inline constexpr auto other_scores = q2 * t(k2) * rsqrt(depth);
inline constexpr auto recently = bottom_right(window(255, 0));

inline constexpr auto causal_scores = mask(scores, causal_bottom_right);
inline constexpr auto other_causal_scores = mask(other_scores, causal_bottom_right);
inline constexpr auto recent_scores = mask(scores, recently);
inline constexpr auto earlier_scores = mask(scores, causal_bottom_right && !recently);
inline constexpr auto of_encoder =
    softmax(q2 * t(keys(encoder_k(b, h, kv_idx, d_idx))) * rsqrt(depth)) * values(encoder_v(b, h, kv_idx, d_idx));

inline constexpr auto attended = softmax(causal_scores) * v;
inline constexpr auto other_attended = softmax(other_causal_scores) * v;
inline constexpr auto recent = softmax(recent_scores) * v;
inline constexpr auto recent_state = outputs(out = recent, lse = log_sum_exp(recent_scores));
inline constexpr auto earlier_state = outputs(out = softmax(earlier_scores) * v, lse = log_sum_exp(earlier_scores));

inline constexpr auto differential = attended - lambda(h) * other_attended;
inline constexpr auto gated = gate(b, h, q_idx) * recent + (1.0 - gate(b, h, q_idx)) * attended;
inline constexpr auto own_and_encoder = outputs(out = attended, output<"crossed"> = of_encoder);
inline constexpr auto merged =
    merge(state(recent, log_sum_exp(recent_scores)), state(softmax(earlier_scores) * v, log_sum_exp(earlier_scores)))
        .out;

/// A kernel and a call of it.
struct timed {
    generators::variant of;
    std::unique_ptr<generators::jit_kernel> kernel;
    attune::support::workload call;
    std::vector<attune::detail::named_argument> given;
    std::vector<double> milliseconds{};

    /// `whole`: whose tensors it is given, where that has one of the name.
    timed(const char* name, const attune::graph_ir& graph, const std::string& level, const char* shapes,
          const attune::support::shape& of_call, const timed* whole = nullptr)
        : of{std::string("bench::") + name, graph}, call(graph, of_call, 1), given(call.arguments()) {
        for (attune::detail::named_argument& each : given)
            if (whole)
                for (const attune::detail::named_argument& of_whole : whole->given)
                    if (of_whole.name == each.name) each.view = of_whole.view;
        const std::string depth = std::to_string(of_call.depth);
        kernel = std::make_unique<generators::jit_kernel>(
            generators::kernels_of({&of, 1}, {.targets = {level}, .depths = {depth}, .shapes = {shapes}}).front());
    }
    void run() {
        const auto start = std::chrono::steady_clock::now();
        attune::detail::call(kernel->table(), given, {});
        milliseconds.push_back(
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    double median() {
        milliseconds.erase(milliseconds.begin());  // the first warms up
        std::sort(milliseconds.begin(), milliseconds.end());
        return milliseconds[milliseconds.size() / 2];
    }
};

struct row {
    const char* name;
    attune::graph_ir whole;
    std::vector<attune::graph_ir> alone;
};

void print(const row& each, const std::string& level, const char* shapes, const attune::support::shape& of_call,
           int repeats) {
    std::vector<std::unique_ptr<timed>> calls;
    calls.push_back(std::make_unique<timed>(each.name, each.whole, level, shapes, of_call));
    for (const attune::graph_ir& part : each.alone)
        calls.push_back(std::make_unique<timed>("alone", part, level, shapes, of_call, calls.front().get()));
    for (int i = 0; i <= repeats; ++i)
        for (const auto& call : calls) call->run();
    const double whole = calls.front()->median();
    double sum = 0;
    std::string parts;
    for (std::size_t i = 1; i < calls.size(); ++i) {
        const double part = calls[i]->median();
        sum += part;
        parts += fmt::format("{}{:.3f}", i == 1 ? "" : " + ", part);
    }
    fmt::print("{:<16} {:<8} {:>10.3f} {:>22} {:>8.3f}\n", each.name, shapes, whole, parts, whole / sum);
}

}  // namespace

int main(int argc, char** argv) {
    std::int64_t length = 2048, keys = 16384, heads = 8, depth = 64;
    int repeats = 7;
    CLI::App app{
        "Times calls with several softmaxes beside calls of each alone: milliseconds, and the ratio of one to the "
        "sum."};
    app.add_option("--length", length, "queries and keys of prefill")->capture_default_str();
    app.add_option("--keys", keys, "keys of decode, of four sequences")->capture_default_str();
    app.add_option("--heads", heads)->capture_default_str();
    app.add_option("--depth", depth)->capture_default_str();
    app.add_option("--repeats", repeats)->capture_default_str();
    CLI11_PARSE(app, argc, argv);

    std::string level;
    for (const generators::level& each : generators::levels())
        if (level.empty() && attune::runs(each.name) && !each.is_for_bf16()) level = each.name;
    if (level.empty()) {
        fmt::print(stderr, "expected a machine that runs one of the levels of attune, got one that runs none\n");
        return 1;
    }
    const std::vector<row> rows{
        {"differential", ir_of<differential>, {ir_of<attended>, ir_of<other_attended>}},
        {"gated", ir_of<gated>, {ir_of<recent>, ir_of<attended>}},
        {"own_and_encoder", ir_of<own_and_encoder>, {ir_of<attended>, ir_of<of_encoder>}},
        {"merged", ir_of<merged>, {ir_of<recent_state>, ir_of<earlier_state>}},
    };
    fmt::print("{}, {} threads; {} heads, depth {}, f32\n", level, attune::threads(), heads, depth);
    fmt::print("{:<16} {:<8} {:>10} {:>22} {:>8}\n", "", "", "one call", "each alone", "of sum");
    for (const row& each : rows)
        print(each, level, "prefill",
              {.heads = heads,
               .key_heads = heads,
               .queries = length,
               .keys = length,
               .depth = depth,
               .value_depth = depth},
              repeats);
    for (const row& each : rows)
        print(each, level, "decode",
              {.batches = 4,
               .heads = heads,
               .key_heads = heads,
               .queries = 1,
               .keys = keys,
               .depth = depth,
               .value_depth = depth},
              repeats);
}
