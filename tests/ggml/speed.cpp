// speed MODEL CACHE THREADS DEPTH PROMPT GENERATED REPEATS STATE: tokens a second of llama.cpp behind DEPTH others, for
// bench.py: of a prompt, and of tokens one after another. Its lines are those of llama-bench -o jsonl, as far as
// bench.py reads them, and so is what is timed.
//
// The first DEPTH tokens are read once and kept in the file STATE, from which later runs take them, with the backend or
// without: reading 16,384 of them takes long by ggml's own operator over codes.
#include "engine.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>

namespace {

using attempts = std::vector<double>;

class reader {
public:
    explicit reader(engine& of) : model_(of) {}

    void prompt(int count) {
        for (int done = 0; done < count; done += engine::batch) {
            std::vector<llama_token> tokens(static_cast<std::size_t>(std::min(engine::batch, count - done)));
            std::generate(tokens.begin(), tokens.end(), [this] { return any(); });
            model_.read(tokens, false);
        }
    }
    void one_by_one(int count) {
        for (int i = 0; i < count; ++i) {
            const llama_token token = any();
            model_.read(std::span(&token, 1));
        }
    }

private:
    llama_token any() { return static_cast<llama_token>(random_() % words_); }

    engine& model_;
    std::mt19937 random_;
    std::uint32_t words_ = static_cast<std::uint32_t>(llama_vocab_n_tokens(model_.vocabulary()));
};

template <class Work> double rate(int count, const Work& work) {
    const auto before = std::chrono::steady_clock::now();
    work();
    return count / std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
}

void print(int prompt, const attempts& rates) {
    std::printf("{\"n_prompt\": %d, \"samples_ts\": [", prompt);
    for (std::size_t i = 0; i < rates.size(); ++i) std::printf("%s%.3f", i ? ", " : "", rates[i]);
    std::printf("]}\n");
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 9) throw std::runtime_error("expected MODEL CACHE THREADS DEPTH PROMPT GENERATED REPEATS STATE");
    const int depth = std::stoi(argv[4]), prompt = std::stoi(argv[5]), generated = std::stoi(argv[6]);
    const std::string state = argv[8];
    load_backends();
    engine model(argv[1], type_of(argv[2]), std::stoi(argv[3]), nullptr, depth + std::max(prompt, generated));
    reader tokens(model);
    if (depth && !std::filesystem::exists(state)) {
        tokens.prompt(depth);
        model.keep(state);
    }
    const auto go_back = [&] { depth ? model.recall(state) : model.forget(); };
    attempts prompts, generations;
    for (int i = -1; i < std::stoi(argv[7]); ++i) {  // the first time, with few tokens, is not kept
        go_back();
        const int read = i < 0 ? std::min(prompt, 32) : prompt, written = i < 0 ? std::min(generated, 1) : generated;
        prompts.push_back(rate(read, [&] { tokens.prompt(read); }));
        go_back();
        generations.push_back(rate(written, [&] { tokens.one_by_one(written); }));
    }
    prompts.erase(prompts.begin()), generations.erase(generations.begin());
    if (prompt) print(prompt, prompts);
    if (generated) print(0, generations);
    return 0;
} catch (const std::exception& wrong) {
    std::fprintf(stderr, "speed: %s\n", wrong.what());
    return 1;
}
