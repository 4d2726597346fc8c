#pragma once
#include "exact_attention.hpp"

#include <ggml-backend.h>
#include <llama.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

/// A model in llama.cpp, as perplexity.cpp and greedy.cpp run it. Which backends compute it is llama.cpp's own business
/// (GGML_BACKEND_PATH).

/// How many parts llama.cpp's scheduler made of a graph, as its log has it.
inline int splits = 0;

inline void load_backends() {
    llama_log_set(
        [](ggml_log_level, const char* text, void*) {
            constexpr char before[] = "splits = ";
            if (const char* const found = std::strstr(text, before)) splits = std::atoi(found + std::strlen(before));
        },
        nullptr);
    ggml_backend_load_all();
}

inline ggml_type type_of(const std::string& name) {
    if (name == "f32") return GGML_TYPE_F32;
    if (name == "f16") return GGML_TYPE_F16;
    if (name == "q8_0") return GGML_TYPE_Q8_0;
    if (name == "q4_0") return GGML_TYPE_Q4_0;
    throw std::runtime_error("expected f32, f16, q8_0 or q4_0, got " + name);
}

inline std::string text_of(const char* file) {
    std::ifstream opened(file);
    return {std::istreambuf_iterator<char>(opened), {}};
}

/// The arguments of a program: MODEL TEXT CACHE THREADS, words of its own, [exact [NOISE SEED]].
struct told {
    std::string model, text;
    ggml_type cache{};
    int threads = 0;
    std::vector<std::string> own;
    bool exact = false;
    double noise = 0;
    unsigned seed = 0;

    told(int argc, char** argv, std::initializer_list<const char*> of_its_own = {}) {
        const std::vector<std::string> words(argv + 1, argv + argc);
        const std::size_t plain = 4 + of_its_own.size();
        exact = words.size() > plain && words[plain] == "exact";
        if (words.size() != plain && !(exact && (words.size() == plain + 1 || words.size() == plain + 3))) {
            std::string usage = "expected MODEL TEXT CACHE THREADS";
            for (const char* const word : of_its_own) usage.append(" ").append(word);
            throw std::runtime_error(usage + " [exact [NOISE SEED]]");
        }
        model = words[0], text = text_of(words[1].c_str()), cache = type_of(words[2]), threads = std::stoi(words[3]);
        own.assign(words.begin() + 4, words.begin() + static_cast<std::ptrdiff_t>(plain));
        if (words.size() > plain + 1)
            noise = std::stod(words[plain + 1]), seed = static_cast<unsigned>(std::stoul(words[plain + 2]));
    }
};

/// Replaces what attention computed by attention in double over the same tensors, each number multiplied by 1 + noise x
/// a normal number. An engine with one runs its graphs a node at a time.
class replaced_attention {
public:
    replaced_attention(double noise, unsigned seed) : noise_(noise), random_(seed) {}
    /// The square of the error of what was replaced by that of the values.
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
    static constexpr int batch = 512;  ///< tokens that are read at once

    engine(const std::string& file, ggml_type cache, int threads, replaced_attention* replaced) {
        model_ = llama_model_load_from_file(file.c_str(), llama_model_default_params());
        if (!model_) throw std::runtime_error("no model in " + file);
        llama_context_params params = llama_context_default_params();
        params.n_ctx = 4096;
        params.n_batch = params.n_ubatch = batch;
        params.n_threads = params.n_threads_batch = threads;
        params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
        params.type_k = params.type_v = cache;
        if (replaced) params.cb_eval = replaced_attention::replace, params.cb_eval_user_data = replaced;
        context_ = llama_init_from_model(model_, params);
        if (!context_) throw std::runtime_error("no context");
        part_ = llama_batch_init(batch, 0, 1);
    }
    engine(const engine&) = delete;
    ~engine() {
        llama_batch_free(part_);
        llama_free(context_);
        llama_model_free(model_);
    }

    /// The first ones of a text, at most so many.
    std::vector<llama_token> tokens_of(const std::string& text, int most) const {
        std::vector<llama_token> tokens(text.size() + 8);
        const int count = llama_tokenize(vocabulary(), text.data(), static_cast<int>(text.size()), tokens.data(),
                                         static_cast<int>(tokens.size()), true, false);
        if (count < 2) throw std::runtime_error("expected a text of two tokens or more");
        tokens.resize(static_cast<std::size_t>(std::min(count, most)));
        return tokens;
    }

    /// Puts at most `batch` tokens behind those that were read before. Then logits(i) are what is expected behind the
    /// i-th of them.
    void read(std::span<const llama_token> tokens) {
        part_.n_tokens = static_cast<int>(tokens.size());
        for (int i = 0; i < part_.n_tokens; ++i) {
            part_.token[i] = tokens[static_cast<std::size_t>(i)];
            part_.pos[i] = place_++;
            part_.n_seq_id[i] = 1, part_.seq_id[i][0] = 0, part_.logits[i] = 1;
        }
        if (llama_decode(context_, part_) != 0) throw std::runtime_error("llama_decode failed");
    }
    std::span<const float> logits(int i) {
        const auto words = static_cast<std::size_t>(llama_vocab_n_tokens(vocabulary()));
        return {llama_get_logits_ith(context_, i), words};
    }

private:
    const llama_vocab* vocabulary() const { return llama_model_get_vocab(model_); }

    llama_model* model_ = nullptr;
    llama_context* context_ = nullptr;
    llama_batch part_{};
    int place_ = 0;
};
