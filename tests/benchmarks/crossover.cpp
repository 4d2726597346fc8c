// Where the kernel for few queries ends to pay: both kernels of softmax(q * t(k) * rsqrt(depth)) * v, compiled in
// process and timed interleaved.
//
//     attune_crossover --queries 1 2 4 8 16 32 --heads 32 --key-heads 8 --keys 16384 --depth 128 --dtypes f32
//     [--schedule '{"key_tile": 4}']
#include "peak.hpp"

#include "commands/schedule_option.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <memory>
#include <random>
#include <span>

namespace {

using namespace attune::dsl;
inline constexpr auto plain = softmax(q * t(k) * rsqrt(depth)) * v;

std::vector<float> numbers(std::int64_t count) {
    std::vector<float> result(static_cast<std::size_t>(count));
    std::minstd_rand random(1);
    for (float& x : result) x = static_cast<float>(random() % 2048) / 1024.0f - 1.0f;
    return result;
}

/// Elements of a type: the same bits whatever the type, small numbers for bf16 and f32.
struct filled {
    filled(attune::element_type type, std::vector<std::int64_t> shape) : type_(type), shape_(std::move(shape)) {
        std::int64_t count = 1;
        for (const auto extent : shape_) count *= extent;
        reals_ = numbers(count);
        if (type == attune::element_type::f32) return;
        halves_.resize(reals_.size());
        for (std::size_t i = 0; i < reals_.size(); ++i)
            halves_[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(reals_[i]) >> 16);
        reals_ = {};
    }
    std::span<const std::byte> bytes() const {
        return halves_.empty() ? std::as_bytes(std::span(reals_)) : std::as_bytes(std::span(halves_));
    }
    attune::tensor view() {
        return {type_, halves_.empty() ? static_cast<void*>(reals_.data()) : static_cast<void*>(halves_.data()),
                shape_};
    }

private:
    attune::element_type type_;
    std::vector<std::int64_t> shape_;
    std::vector<float> reals_;
    std::vector<std::uint16_t> halves_;
};

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::int64_t> queries{1, 2, 4, 8, 12, 16, 24, 32};
    std::int64_t batch = 1, heads = 32, key_heads = 8, keys = 16384, depth = 128;
    std::string dtype = "f32", cut;
    int repeats = 7;
    bool deterministic = false;
    CLI::App app{
        "Times the kernels for few and for many queries, interleaved, and says what share they draw of the rate at "
        "which keys and values can be read, measured between their calls;\n"
        "and what share decode reaches of the multiply-add peak, measured between them, too."};
    app.add_option("--queries", queries)->capture_default_str();
    app.add_option("--batch", batch)->capture_default_str();
    app.add_option("--heads", heads)->capture_default_str();
    app.add_option("--key-heads", key_heads)->capture_default_str();
    app.add_option("--keys", keys)->capture_default_str();
    app.add_option("--depth", depth)->capture_default_str();
    app.add_option("--dtype", dtype, "f32 or bf16")->capture_default_str();
    app.add_option("--schedule", cut, "another schedule for decode: a JSON object with some of its fields");
    app.add_option("--repeats", repeats)->capture_default_str();
    app.add_flag("--deterministic", deterministic, "no bit depends on the batch");
    CLI11_PARSE(app, argc, argv);

    std::string best;
    for (const attune::generators::level& each : attune::generators::levels())
        if (best.empty() && attune::runs(each.name)) best = each.name;
    const attune::generators::variant of{"bench::plain", ir_of<plain>};
    auto list = attune::generators::kernels_of(
        {&of, 1},
        {.targets = {best}, .dtypes = {dtype}, .depths = {std::to_string(depth)}, .shapes = {"prefill", "decode"}});
    list[1].request.schedule = attune::generators::schedule_with(list[1].request, cut);
    const attune::generators::jit_kernel prefill(list[0]), decode(list[1]);
    const int threads = attune::threads();
    const std::string schedule = attune::generators::to_json(list[1].request.schedule);
    fmt::print("{}, {} threads; batch {}, heads {} over {}, {} keys, depth {}, {}; {}\n", best, threads, batch, heads,
               key_heads, keys, depth, dtype, schedule);
    attune::support::peaks peaks;
    const attune::support::instruction& multiplies = attune::support::instruction_of(best, schedule);
    const auto type = list[0].request.types.key;
    filled k(type, {batch, key_heads, keys, depth}), v(type, {batch, key_heads, keys, depth});
    fmt::print("{:>8} {:>12} {:>12} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "queries", "prefill ms", "decode ms", "ratio",
               "GB/s", "of read", "GFLOP/s", "of peak");
    for (const std::int64_t n : queries) {
        filled q(type, {batch, heads, n, depth}), out(type, {batch, heads, n, depth});
        const auto named = [](std::string_view name, attune::tensor view) {
            return attune::detail::named_argument{.name = name, .view = view};
        };
        const std::vector<attune::detail::named_argument> given{named("q", q.view()), named("k", k.view()),
                                                                named("v", v.view()), named("out", out.view())};
        std::vector<double> times[3];
        for (int i = 0; i <= repeats; ++i)
            for (const int which : {0, 1, 2}) {
                if (which == 2) {
                    peaks.again(multiplies, threads);
                    if (i > 0)
                        times[2].push_back(
                            attune::support::seconds_to_read(std::array{k.bytes(), v.bytes()}, threads, 1).front());
                    continue;
                }
                const auto start = std::chrono::steady_clock::now();
                attune::detail::call((which ? decode : prefill).table(), given, {.deterministic = deterministic});
                if (i > 0)
                    times[which].push_back(
                        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
            }
        for (auto& t : times) std::sort(t.begin(), t.end());
        const double a = times[0][times[0].size() / 2], b = times[1][times[1].size() / 2],
                     read = times[2][times[2].size() / 2];
        const double bytes = 2.0 * static_cast<double>(batch * key_heads * keys * depth * attune::bytes_of(type)),
                     flops = 4.0 * static_cast<double>(batch * heads * n * keys * depth);
        const double gigaflops = flops / b * 1e-9, share = peaks.share(gigaflops, multiplies, threads);
        fmt::print("{:>8} {:>12.3f} {:>12.3f} {:>8.2f} {:>8.1f} {:>7.0f}% {:>8.0f} {:>7.0f}%  {}\n", n, a * 1e3,
                   b * 1e3, a / b, bytes / b * 1e-9, 100 * read / b, gigaflops, 100 * share,
                   attune::support::remark(share, multiplies));
    }
}
