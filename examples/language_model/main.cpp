// language_model --prompt TEXT: what a Llama or a Gemma 3 in GGUF says next, each layer's attention one call of attune.
#include "generate.hpp"
#include "threads.hpp"
#include "tokenizer.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <fstream>

namespace {
using namespace language_model;

struct options {
    std::string file = ATTUNE_FETCHED_MODEL, kind = "f32", weights = "f32", logits;
    std::vector<std::string> prompts;
    limits limit{.tokens = 100};
    std::int64_t slots = 0;
    bool json = false, ignore_end = false;
};

void write(const std::string& path, std::span<const float> numbers) {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(numbers.data()), static_cast<std::streamsize>(numbers.size_bytes()));
    if (!file.flush()) throw std::runtime_error(path + ": cannot be written in full");
}

/// Of each token of all prompts, one prompt after another.
void write_logits(const model& of, cache& past, std::span<const sequence> all, const std::string& path) {
    step s;
    for (const sequence& each : all) {
        s.tokens.insert(s.tokens.end(), each.tokens.begin(), each.tokens.end());
        s.starts.push_back(static_cast<std::int32_t>(s.tokens.size()));
        s.lengths.push_back(static_cast<std::int32_t>(each.tokens.size()));
    }
    write(path, of(s, past, true));
}

void say_speed(const spent& took, const cache& past, const options& how) {
    const auto rate = [](std::size_t tokens, double seconds) {
        return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
    };
    const auto share = [](double part, double whole) { return whole > 0 ? 100 * part / whole : 0.0; };
    fmt::print(
        stderr,
        "prompt: {} tokens, {:.1f} tokens/s, attention {:.1f} %; generation: {} tokens in {} steps, {:.1f} tokens/s, "
        "attention {:.1f} %; {} threads, weights {}, cache {} in {:.1f} MB\n",
        took.prompt_tokens, rate(took.prompt_tokens, took.prompt), share(took.prompt_attention, took.prompt),
        took.generated_tokens, took.steps, rate(took.generated_tokens, took.generation),
        share(took.generation_attention, took.generation), attune::threads(), how.weights, how.kind,
        static_cast<double>(past.bytes()) / 1e6);
}

void run(const options& how) {
    const bool watched = ::isatty(STDERR_FILENO);
    const gguf file(how.file);
    const tokenizer tokens_of(file);
    const model of(file, how.weights == "f32" ? weight_type::f32 : weight_type::bf16, [&](int layer) {
        if (watched) fmt::print(stderr, "\r{}: layer {} ", how.file, layer + 1);
    });
    if (watched) fmt::print(stderr, "\r\x1b[K");
    std::vector<sequence> all;
    std::size_t longest = 0;
    for (const std::string& text : how.prompts) {
        std::vector<std::int32_t> tokens = tokens_of(text);
        longest = std::max(longest, tokens.size() + how.limit.tokens);
        all.push_back({tokens, tokens.size()});
    }
    const auto needed = static_cast<std::int64_t>(longest), rounded = (needed + 63) / 64 * 64;
    const std::int64_t slots = how.slots > 0 ? how.slots : std::max(needed, std::min(rounded, of.shape().longest));
    if (slots > of.shape().longest)
        throw std::invalid_argument(
            fmt::format("expected at most {} tokens a sequence, which the model was trained on, got {}",
                        of.shape().longest, slots));
    const auto past = make_cache(how.kind, of.shape(), static_cast<std::int64_t>(all.size()), slots);
    if (!how.logits.empty()) return write_logits(of, *past, all, how.logits);

    const bool streams = all.size() == 1 && !how.json;  // tokens as they come; of several prompts each answer whole
    if (streams) fmt::print("{}", how.prompts.front()), std::fflush(stdout);
    const spent took = generate(
        of, *past, all, how.limit, [&](std::int32_t token) { return !how.ignore_end && tokens_of.ends(token); },
        [&](std::size_t, std::int32_t token) {
            if (streams) fmt::print("{}", tokens_of.text_of(token)), std::fflush(stdout);
        });
    if (streams) fmt::print("\n");
    nlohmann::json answers;
    for (std::size_t i = 0; i < all.size(); ++i) {
        std::string text;
        for (std::size_t at = all[i].prompt; at < all[i].tokens.size(); ++at)
            text += tokens_of.text_of(all[i].tokens[at]);
        if (!streams && !how.json) fmt::print("{}: {}{}\n", i + 1, how.prompts[i], text);
        answers.push_back({{"tokens", all[i].tokens}, {"prompt", all[i].prompt}});
    }
    if (how.json)
        fmt::print("{}\n", nlohmann::json{{"sequences", answers},
                                          {"prompt_tokens", took.prompt_tokens},
                                          {"prompt_seconds", took.prompt},
                                          {"prompt_attention", took.prompt_attention},
                                          {"generated_tokens", took.generated_tokens},
                                          {"generation_steps", took.steps},
                                          {"generation_seconds", took.generation},
                                          {"generation_attention", took.generation_attention}}
                               .dump());
    say_speed(took, *past, how);
}

}  // namespace

int main(int argc, char** argv) {
    options how;
    CLI::App app{
        "Says what follows a prompt, by a language model in GGUF: Llama with SmolLM's tokens, or Gemma 3. Takes the "
        "likeliest token each time.\nATTUNE_THREADS says how many threads attention has, OMP_NUM_THREADS how many the "
        "products."};
    app.add_option("--prompt", how.prompts, "several are one batch")->required();
    app.add_option("--model", how.file, "a .gguf; without it, the one that ./examples/run language_model fetched");
    app.add_option("--tokens", how.limit.tokens, "that each prompt is followed by at most")
        ->capture_default_str()
        ->check(CLI::Range(1, 1 << 20));
    app.add_option("--cache", how.kind, "f32, bf16, i8, or pages, in bf16")
        ->capture_default_str()
        ->check(CLI::IsMember({"f32", "bf16", "i8", "pages"}));
    app.add_option("--weights", how.weights, "f32 or bf16")
        ->capture_default_str()
        ->check(CLI::IsMember({"f32", "bf16"}));
    app.add_option(
           "--drafts", how.limit.drafts,
           "tokens that are guessed a step, from what followed the last ones before: the same text in fewer steps")
        ->capture_default_str()
        ->check(CLI::Range(0, 63));
    app.add_option("--slots", how.slots, "of the cache, a sequence; without it, as many as are needed");
    app.add_option("--logits", how.logits,
                   "write the logits of each token of the prompts there, in f32, and say nothing");
    app.add_flag("--ignore-end", how.ignore_end, "go on behind a token that ends an answer");
    app.add_flag("--json", how.json, "tokens and seconds, as JSON");
    CLI11_PARSE(app, argc, argv);
    try {
        use_threads_of_products();
        run(how);
    } catch (const std::exception& e) {
        fmt::print(stderr, "language_model: {}\n", e.what());
        return 2;
    }
}
