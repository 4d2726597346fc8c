// llama_attention MODEL THREADS GENERATED < TOKENS: the share of attention in the time that llama.cpp takes to read
// tokens and to say the likeliest ones behind them, and those, as a line of JSON, for language_model.py.
//
// Attention is what a call of attune is: rotation, the norms of queries and keys, the store, and flash attention. Its
// scheduler stops behind each of them and behind each product with weights, and what passed since the last stop belongs
// to the one or to the other; that slows the whole, so that seconds are llama-bench's.
#include <ggml-backend.h>
#include <llama.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <vector>

namespace {

class stopwatch {
public:
    double share() const { return attention_ / (attention_ + rest_); }

    static bool stop(ggml_tensor* node, bool ask, void* self) {
        const bool attends =
            node->op == GGML_OP_FLASH_ATTN_EXT || node->op == GGML_OP_ROPE || node->op == GGML_OP_SET_ROWS;
        if (!attends && node->op != GGML_OP_MUL_MAT) return !ask;
        if (!ask) static_cast<stopwatch*>(self)->stop(attends);
        return true;
    }
    void start() { attention_ = rest_ = 0, last_ = clock::now(); }

private:
    using clock = std::chrono::steady_clock;
    void stop(bool attends) {
        const auto now = clock::now();
        (attends ? attention_ : rest_) += std::chrono::duration<double>(now - last_).count();
        last_ = now;
    }
    double attention_ = 0, rest_ = 0;
    clock::time_point last_;
};

/// The likeliest token behind these.
llama_token read(llama_context* context, std::vector<llama_token>& tokens, int vocabulary) {
    if (llama_decode(context, llama_batch_get_one(tokens.data(), static_cast<int>(tokens.size()))) != 0)
        throw std::runtime_error("llama_decode failed");
    const float* const logits = llama_get_logits_ith(context, -1);
    return static_cast<llama_token>(std::max_element(logits, logits + vocabulary) - logits);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) return std::fprintf(stderr, "usage: llama_attention MODEL THREADS GENERATED < TOKENS\n"), 2;
    llama_log_set(
        [](ggml_log_level level, const char* text, void*) {
            if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
        },
        nullptr);
    ggml_backend_load_all();
    std::vector<llama_token> tokens{std::istream_iterator<llama_token>(std::cin), {}};
    const int generated = std::atoi(argv[3]);
    llama_model* const model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model) return 1;
    stopwatch watch;
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<unsigned>(tokens.size()) + static_cast<unsigned>(generated) + 1;
    params.n_batch = params.n_ubatch = static_cast<unsigned>(tokens.size());
    params.n_threads = params.n_threads_batch = std::atoi(argv[2]);
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    params.cb_eval = stopwatch::stop, params.cb_eval_user_data = &watch;
    llama_context* const context = llama_init_from_model(model, params);
    if (!context) return 1;
    const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));

    std::vector<llama_token> said;
    double shares[2] = {};
    read(context, tokens, vocabulary);  // a round that does not count
    llama_memory_clear(llama_get_memory(context), true);
    watch.start();
    std::vector<llama_token> next{read(context, tokens, vocabulary)};
    shares[0] = watch.share();
    watch.start();
    for (int i = 0; i < generated; ++i) said.push_back(next[0]), next[0] = read(context, next, vocabulary);
    said.push_back(next[0]);
    shares[1] = watch.share();
    std::printf("{\"prompt\": %f, \"generation\": %f, \"said\": [", shares[0], shares[1]);
    for (std::size_t i = 0; i < said.size(); ++i) std::printf("%s%d", i == 0 ? "" : ", ", said[i]);
    std::printf("]}\n");
    llama_free(context);
    llama_model_free(model);
}
