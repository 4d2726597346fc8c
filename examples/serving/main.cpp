// serving [--model FILE] [--prompt TEXT] [--requests N] [--sequences N] [--pages N] [--tokens N]: serves requests over
// a paged cache of bytes and pools of states, and computes what each was told again, alone and without a cache. Without
// a model it serves a hybrid: three layers with a state to one of attention, of random weights.
#include "alone.hpp"
#include "engine.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace {
using namespace serving;

/// Requests that begin alike, as those of one application do; without a prompt they end in random letters, and in every
/// third the user goes on after a while.
std::unique_ptr<request> made(std::mt19937& random, std::size_t most_said, const std::string& prompt_of_all) {
    const auto letters = [&](std::size_t count) {
        std::string text;
        while (count-- > 0) text += static_cast<char>('a' + random() % 26);
        return text;
    };
    std::string text = prompt_of_all;
    if (text.empty())
        text = "You are a small decoder that serves many at a time. Answer in short. " + letters(4 + random() % 60);
    auto all = std::make_unique<request>(request{.turns = {{tokens_of(text), 0, 1 + random() % most_said}},
                                                 .seed = static_cast<unsigned>(1 + random())});
    if (const std::size_t left = 256 - std::min<std::size_t>(all->most(), 256); random() % 3 == 0 && left > 8)
        all->turns.push_back({tokens_of(letters(1 + random() % 4)), 1 + random() % 20, 1 + random() % (left - 5)});
    return all;
}

std::vector<int> answers_of(const request& r) {
    std::vector<int> all;
    for (const std::size_t at : r.answers) all.push_back(r.tokens[at]);
    return all;
}

/// Where the last place of a byte is another, logits are by some thousandths.
constexpr double most_of_logits = 0.02;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

int main(int argc, char** argv) {
    std::size_t requests = 48, tokens = 64;
    int sequences = 8, pages = 96;
    std::string file, prompt;
    CLI::App app{
        "Serves requests with continuous batching over a paged cache of bytes and pools of states, and checks every "
        "token."};
    app.add_option("--model", file, "what `training --save` wrote; without, a hybrid of random weights")
        ->check(CLI::ExistingFile);
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
        const auto [done, said_tokens, steps, shared, most_pages, kept] = serve.so_far();
        fmt::print(
            "{}{} requests, {} tokens in {} steps of up to {} sequences, {:.0f} tokens/s; {} pages at most, {} of a "
            "shared prefix, {} sequences begun with a state that was kept\n",
            ::isatty(STDERR_FILENO) ? "\r\x1b[K" : "", done, said_tokens, steps, sequences, rate(), most_pages, shared,
            kept);
        difference all;
        for (const auto& each : serve.done()) {
            const difference one = difference_alone(model, *each);
            all.tokens += one.tokens, all.logits = one.logits <= all.logits ? all.logits : one.logits;
        }
        const auto& longest =
            **std::ranges::max_element(serve.done(), {}, [](const auto& each) { return each->answers.size(); });
        fmt::print("the longest answer: {}\n", text_of(answers_of(longest)));
        fmt::print(
            "{} of {} tokens differ from those of each request alone, without a cache; logits by {:.1e} at most\n",
            all.tokens, said_tokens, all.logits);
        return all.tokens > 0 || !(all.logits <= most_of_logits);
    } catch (const std::exception& e) {
        fmt::print(stderr, "{}\n", e.what());
        return 2;
    }
}
