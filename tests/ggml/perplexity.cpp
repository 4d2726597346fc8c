// perplexity MODEL TEXT f16|q8_0|q4_0 THREADS [exact [NOISE SEED]]: the mean surprise of a text's tokens by llama.cpp
// over a cache of that type, and the parts that its graph was cut into, for models.py. Which backends compute it is
// llama.cpp's own business (GGML_BACKEND_PATH).
//
// exact: each attention's output is compared with the one in double over the same tensors, and then replaced by it. The
// square of the error by that of the values is printed as `error`. With NOISE each replaced number is multiplied by 1 +
// NOISE x a normal number: what a perplexity is worth when rounding differs.
#include "exact_attention.hpp"

#include <ggml-backend.h>
#include <llama.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int batch = 512;
constexpr int most = 1024;  // of a text are read

int splits = 0;  // how many parts llama.cpp's scheduler made of a graph, as its log has it

void note(ggml_log_level, const char* text, void*) {
    constexpr char before[] = "splits = ";
    if (const char* const found = std::strstr(text, before)) splits = std::atoi(found + std::strlen(before));
}

ggml_type type_of(const std::string& name) {
    if (name == "f16") return GGML_TYPE_F16;
    if (name == "q8_0") return GGML_TYPE_Q8_0;
    if (name == "q4_0") return GGML_TYPE_Q4_0;
    throw std::runtime_error("expected f16, q8_0 or q4_0, got " + name);
}

/// Replaces what attention computed. An engine with one runs its graphs a node at a time.
class replaced_attention {
public:
    replaced_attention(double noise, unsigned seed) : noise_(noise), random_(seed) {}
    double error() const { return wrong_ / size_; }

    static bool replace(ggml_tensor* node, bool ask, void* self) {
        if (node->op != GGML_OP_FLASH_ATTN_EXT) return !ask;
        if (!ask) static_cast<replaced_attention*>(self)->replace(*node);
        return true;
    }

private:
    void replace(ggml_tensor& node) {
        const std::vector<double> exact = exact_attention(node)();
        auto* const values = static_cast<float*>(node.data);
        for (std::size_t i = 0; i < exact.size(); ++i) {
            wrong_ += std::pow(static_cast<double>(values[i]) - exact[i], 2), size_ += std::pow(exact[i], 2);
            values[i] = static_cast<float>(exact[i] * (1 + noise_ * normal_(random_)));
        }
    }

    double noise_, wrong_ = 0, size_ = 0;
    std::mt19937 random_;
    std::normal_distribution<double> normal_;
};

class engine {
public:
    engine(const char* file, ggml_type cache, int threads, replaced_attention* replaced) {
        llama_model_params of_model = llama_model_default_params();
        model_ = llama_model_load_from_file(file, of_model);
        if (!model_) throw std::runtime_error(std::string("no model in ") + file);
        llama_context_params params = llama_context_default_params();
        params.n_ctx = 4096;
        params.n_batch = params.n_ubatch = batch;
        params.n_threads = params.n_threads_batch = threads;
        params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
        params.type_k = params.type_v = cache;
        if (replaced) params.cb_eval = replaced_attention::replace, params.cb_eval_user_data = replaced;
        context_ = llama_init_from_model(model_, params);
        if (!context_) throw std::runtime_error("no context");
    }
    engine(const engine&) = delete;
    ~engine() {
        llama_free(context_);
        llama_model_free(model_);
    }

    std::vector<llama_token> tokens_of(const std::string& text) const {
        std::vector<llama_token> tokens(text.size() + 8);
        const int count = llama_tokenize(vocabulary(), text.data(), static_cast<int>(text.size()), tokens.data(),
                                         static_cast<int>(tokens.size()), true, false);
        if (count < 2) throw std::runtime_error("expected a text of two tokens or more");
        tokens.resize(static_cast<std::size_t>(std::min(count, most)));
        return tokens;
    }

    /// Of each token but the first, minus the logarithm of its probability.
    double surprise(const std::vector<llama_token>& tokens) {
        double sum = 0;
        llama_batch part = llama_batch_init(batch, 0, 1);
        for (std::size_t begin = 0; begin + 1 < tokens.size(); begin += batch) {
            part.n_tokens = static_cast<int>(std::min<std::size_t>(batch, tokens.size() - begin));
            for (int i = 0; i < part.n_tokens; ++i) {
                part.token[i] = tokens[begin + static_cast<std::size_t>(i)];
                part.pos[i] = static_cast<int>(begin) + i;
                part.n_seq_id[i] = 1, part.seq_id[i][0] = 0, part.logits[i] = 1;
            }
            decode(part);
            for (int i = 0; i < part.n_tokens && begin + static_cast<std::size_t>(i) + 1 < tokens.size(); ++i)
                sum += surprise_at(i, tokens[begin + static_cast<std::size_t>(i) + 1]);
        }
        llama_batch_free(part);
        return sum / static_cast<double>(tokens.size() - 1);
    }

private:
    const llama_vocab* vocabulary() const { return llama_model_get_vocab(model_); }
    int words() const { return llama_vocab_n_tokens(vocabulary()); }
    void decode(llama_batch part) {
        if (llama_decode(context_, part) != 0) throw std::runtime_error("llama_decode failed");
    }
    double surprise_at(int place, llama_token token) {
        const float* const logits = llama_get_logits_ith(context_, place);
        const float largest = *std::max_element(logits, logits + words());
        double sum = 0;
        for (int word = 0; word < words(); ++word) sum += std::exp(static_cast<double>(logits[word] - largest));
        return std::log(sum) + static_cast<double>(largest - logits[token]);
    }

    llama_model* model_ = nullptr;
    llama_context* context_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) try {
    const bool exact = argc > 5 && std::string(argv[5]) == "exact";
    if (argc != 5 && !(exact && (argc == 6 || argc == 8)))
        throw std::runtime_error("expected MODEL TEXT CACHE THREADS [exact [NOISE SEED]]");
    llama_log_set(note, nullptr);
    ggml_backend_load_all();
    replaced_attention replaced(argc > 6 ? std::atof(argv[6]) : 0,
                                argc > 6 ? static_cast<unsigned>(std::atoi(argv[7])) : 0);
    engine model(argv[1], type_of(argv[3]), std::atoi(argv[4]), exact ? &replaced : nullptr);
    std::ifstream file(argv[2]);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::vector<llama_token> tokens = model.tokens_of(text);
    const double surprise = model.surprise(tokens);
    std::printf("{\"splits\": %d, \"tokens\": %zu, \"surprise\": %.9f, \"error\": %g}\n", splits, tokens.size(),
                surprise, exact ? replaced.error() : 0.0);
    return 0;
} catch (const std::exception& wrong) {
    std::fprintf(stderr, "perplexity: %s\n", wrong.what());
    return 1;
}
