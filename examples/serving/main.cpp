// serving [--model FILE] [--prompt TEXT] [--requests N] [--sequences N] [--pages N] [--tokens N]: serves requests over
// a paged cache of bytes, and computes what each was told again, alone and without a cache.
#include "engine.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

namespace {
using namespace serving;

/// Requests that begin alike, as those of one application do; without a prompt they end in random letters.
std::unique_ptr<request> made(std::mt19937& random, std::size_t most_said, const std::string& prompt_of_all) {
    std::string text = prompt_of_all;
    if (text.empty()) {
        text = "You are a small decoder that serves many at a time. Answer in short. ";
        for (std::size_t length = 4 + random() % 60; length > 0; --length)
            text += static_cast<char>('a' + random() % 26);
    }
    auto tokens = tokens_of(text);
    const std::size_t prompt = tokens.size(), most = prompt + 1 + random() % most_said;
    return std::make_unique<request>(request{std::move(tokens), prompt, most, static_cast<unsigned>(1 + random())});
}

/// Softmax over the keys up to each query's own, in double precision, of keys and values rounded as the cache rounds.
void attend_alone(const std::vector<float>& slopes, std::span<const float> q, std::span<const float> k,
                  std::span<const float> v, std::span<float> out) {
    const auto rounded = [](std::span<const float> rows) {
        std::vector<double> to;
        std::int8_t bytes[depth];
        for (std::size_t at = 0; at < rows.size(); at += depth) {
            const float scale = round_row(rows.subspan(at, depth), bytes);
            for (const std::int8_t each : bytes) to.push_back(static_cast<double>(scale) * each);
        }
        return to;
    };
    const std::vector<double> keys = rounded(k), values = rounded(v);
    for (std::size_t row = 0; row < q.size() / depth; ++row) {
        const std::size_t token = row / heads, head = row % heads / (heads / key_heads);
        const auto slope = static_cast<double>(slopes[row % heads]);
        double sum = 0, sums[depth] = {};
        for (std::size_t key = 0; key <= token; ++key) {
            const std::size_t at = (key * key_heads + head) * depth;
            double score = 0;
            for (std::size_t d = 0; d < depth; ++d) score += static_cast<double>(q[row * depth + d]) * keys[at + d];
            const double weight = std::exp(score / std::sqrt(double{depth}) - slope * static_cast<double>(token - key));
            sum += weight;
            for (std::size_t d = 0; d < depth; ++d) sums[d] += weight * values[at + d];
        }
        for (std::size_t d = 0; d < depth; ++d) out[row * depth + d] = static_cast<float>(sums[d] / sum);
    }
}

/// How many tokens of an answer are others than when nothing is kept and no other request is there. Sums in another
/// order move what a byte is rounded to, now and then, and by that the numbers where one token's draws end: so near to
/// such a number either token is right.
std::size_t differing(const decoder& model, const request& r) {
    const std::span<const int> tokens = std::span(r.tokens).first(r.tokens.size() - 1);
    const auto logits = model(
        tokens, [&](int layer, auto q, auto k, auto v, auto out) { attend_alone(model.slopes(layer), q, k, v, out); });
    std::minstd_rand random(r.seed);
    std::size_t count = 0;
    for (std::size_t i = r.prompt; i < r.tokens.size(); ++i) {
        const double drawn = std::uniform_real_distribution<double>(0, 1)(random), near = 1e-3;
        const auto row = std::span(logits).subspan((i - 1) * vocabulary, vocabulary);
        count += sample(row, drawn - near) > r.tokens[i] || sample(row, drawn + near) < r.tokens[i];
    }
    return count;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

int main(int argc, char** argv) {
    std::size_t requests = 48, tokens = 64;
    int sequences = 8, pages = 96;
    std::string file, prompt;
    CLI::App app{"Serves requests with continuous batching over a paged cache of bytes, and checks every token."};
    app.add_option("--model", file, "what `training --save` wrote; random weights without")->check(CLI::ExistingFile);
    app.add_option("--prompt", prompt, "of every request; with an answer it has 256 bytes at most");
    app.add_option("--requests", requests)->capture_default_str();
    app.add_option("--tokens", tokens, "that an answer has at most")->capture_default_str()->check(CLI::Range(1, 120));
    app.add_option("--sequences", sequences, "at a time")->capture_default_str()->check(CLI::Range(1, 256));
    app.add_option("--pages", pages, "of 16 tokens each")->capture_default_str()->check(CLI::Range(1, 1 << 16));
    CLI11_PARSE(app, argc, argv);
    try {
        const decoder model(file.empty() ? drawn(1) : read(file));
        engine serve(model, pages, sequences);
        std::mt19937 random(2);
        for (std::size_t i = 0; i < requests; ++i) serve.add(made(random, tokens, prompt));
        const double start = now();
        double said = start;
        const auto rate = [&] { return static_cast<double>(serve.so_far().tokens) / (now() - start); };
        while (serve.step()) {
            if (now() - said < 0.2 || !::isatty(STDERR_FILENO)) continue;
            said = now();
            fmt::print(stderr, "\r{} of {} requests, {} running, {} tokens, {:.0f} tokens/s ", serve.so_far().done,
                       requests, serve.running(), serve.so_far().tokens, rate());
        }
        const auto [done, said_tokens, steps, shared, most_pages] = serve.so_far();
        fmt::print(
            "{}{} requests, {} tokens in {} steps of up to {} sequences, {:.0f} tokens/s; {} pages at most, {} of a "
            "shared prefix\n",
            ::isatty(STDERR_FILENO) ? "\r\x1b[K" : "", done, said_tokens, steps, sequences, rate(), most_pages, shared);
        std::size_t wrong = 0;
        for (const auto& each : serve.done()) wrong += differing(model, *each);
        const auto& longest = **std::ranges::max_element(
            serve.done(), {}, [](const auto& each) { return each->tokens.size() - each->prompt; });
        fmt::print("the longest answer: {}\n", text_of(std::span(longest.tokens).subspan(longest.prompt)));
        fmt::print("{} of {} tokens differ from those of each request alone, without a cache\n", wrong, said_tokens);
        return wrong > 0;
    } catch (const std::exception& e) {
        fmt::print(stderr, "{}\n", e.what());
        return 2;
    }
}
