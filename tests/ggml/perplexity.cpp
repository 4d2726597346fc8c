// perplexity MODEL TEXT f32|f16|q8_0|q4_0 THREADS [exact [NOISE SEED]]: the mean surprise of a text's tokens by
// llama.cpp over a cache of that type, and the parts that its graph was cut into, for models.py.
//
// exact: each attention's output is compared with the one in double over the same tensors, and then replaced by it. The
// square of the error by that of the values is printed as `error`. With NOISE each replaced number is multiplied by 1 +
// NOISE x a normal number: what a perplexity is worth when rounding differs.
#include "engine.hpp"

#include <cstdio>

namespace {

constexpr int most = 1024;  // of a text are read

double surprise_of(std::span<const float> logits, llama_token token) {
    const float largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit - largest));
    return std::log(sum) + static_cast<double>(largest - logits[static_cast<std::size_t>(token)]);
}

/// Of each token but the first, minus the logarithm of its probability.
double mean_surprise(engine& model, std::span<const llama_token> tokens) {
    double sum = 0;
    constexpr std::size_t batch = engine::batch;
    for (std::size_t begin = 0; begin + 1 < tokens.size(); begin += batch) {
        const auto part = tokens.subspan(begin, std::min(batch, tokens.size() - begin));
        model.read(part);
        for (std::size_t i = 0; i < part.size() && begin + i + 1 < tokens.size(); ++i)
            sum += surprise_of(model.logits(static_cast<int>(i)), tokens[begin + i + 1]);
    }
    return sum / static_cast<double>(tokens.size() - 1);
}

}  // namespace

int main(int argc, char** argv) try {
    const told is(argc, argv);
    load_backends();
    replaced_attention replaced(is.noise, is.seed);
    engine model(is.model, is.cache, is.threads, is.exact ? &replaced : nullptr);
    const std::vector<llama_token> tokens = model.tokens_of(is.text, most);
    const double surprise = mean_surprise(model, tokens);
    std::printf("{\"splits\": %d, \"tokens\": %zu, \"surprise\": %.9f, \"error\": %g}\n", splits, tokens.size(),
                surprise, is.exact ? replaced.error() : 0.0);
    return 0;
} catch (const std::exception& wrong) {
    std::fprintf(stderr, "perplexity: %s\n", wrong.what());
    return 1;
}
