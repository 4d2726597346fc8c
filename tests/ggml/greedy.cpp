// greedy MODEL TEXT f32|f16|q8_0|q4_0 THREADS FILE [exact [NOISE SEED]]: the 200 likeliest tokens behind the first 64
// of a text by llama.cpp, one after the other, for models.py.
//
// Without a FILE writes one: the tokens and the logits that chose them. With one its tokens are read in place of the
// own ones, and the logits compared: how many tokens are the same choice, the root of the mean square of the
// differences of the logits, and the largest one. exact: as perplexity.cpp has it.
#include "engine.hpp"

#include <cstdio>
#include <filesystem>

namespace {

constexpr int given = 64;
constexpr int count = 200;

struct difference {
    int same = 0, first = count;  ///< choices that are the same, and the first one that is not
    double square = 0, largest = 0;
    std::size_t size = 0;
};

llama_token choice(std::span<const float> logits) {
    return static_cast<llama_token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

template <class T> void write(std::ofstream& file, std::span<const T> values) {
    file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size_bytes()));
}
template <class T> void read(std::ifstream& file, std::span<T> values) {
    file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size_bytes()));
    if (!file) throw std::runtime_error("expected a file of 200 tokens and their logits, got a shorter one");
}

void write_choices(engine& model, int last, const std::string& to) {
    std::ofstream file(to, std::ios::binary);
    for (int i = 0; i < count; ++i, last = 0) {
        const std::span<const float> logits = model.logits(last);
        const llama_token token = choice(logits);
        write(file, std::span(&token, 1));
        write(file, logits);
        model.read(std::span(&token, 1));
    }
    if (!file) throw std::runtime_error("cannot write " + to);
}

difference compare_choices(engine& model, int last, const std::string& with) {
    std::ifstream file(with, std::ios::binary);
    difference found;
    for (int i = 0; i < count; ++i, last = 0) {
        const std::span<const float> logits = model.logits(last);
        std::vector<float> others(logits.size());
        llama_token token = 0;
        read(file, std::span(&token, 1));
        read(file, std::span(others));
        if (choice(logits) == token)
            ++found.same;
        else
            found.first = std::min(found.first, i);
        for (std::size_t word = 0; word < others.size(); ++word) {
            const double apart = std::abs(static_cast<double>(logits[word]) - static_cast<double>(others[word]));
            found.square += apart * apart, found.largest = std::max(found.largest, apart);
        }
        found.size += others.size();
        model.read(std::span(&token, 1));
    }
    return found;
}

}  // namespace

int main(int argc, char** argv) try {
    const told is(argc, argv, {"FILE"});
    load_backends();
    replaced_attention replaced(is.noise, is.seed);
    engine model(is.model, is.cache, is.threads, is.exact ? &replaced : nullptr);
    const std::vector<llama_token> tokens = model.tokens_of(is.text, given);
    model.read(tokens);
    const int last = static_cast<int>(tokens.size()) - 1;
    difference found;
    if (std::filesystem::exists(is.own[0]))
        found = compare_choices(model, last, is.own[0]);
    else
        write_choices(model, last, is.own[0]);
    std::printf("{\"same\": %d, \"first\": %d, \"apart\": %g, \"most\": %g}\n", found.same, found.first,
                found.size ? std::sqrt(found.square / static_cast<double>(found.size)) : 0.0, found.largest);
    return 0;
} catch (const std::exception& wrong) {
    std::fprintf(stderr, "greedy: %s\n", wrong.what());
    return 1;
}
