// llama_attention MODEL THREADS GENERATED CACHE FLASH < TOKENS: the share of attention in the time that llama.cpp takes
// to read tokens and to say the likeliest ones behind them, and those, as a line of JSON, for language_model.py. CACHE:
// f16, q8_0 or f32; FLASH: 1 or 0.
//
// Attention is what a call of attune is: rotation, the norms of queries and keys, the store, and attention itself.
// llama.cpp's scheduler stops behind each product that makes queries, keys or values, behind each rotation and behind
// attention. What passed since the last stop is attention's where the stop is not behind a product. A stop takes time
// itself: as long as the same tokens took longer with stops than without, spread evenly, and that is taken off.
#include <ggml-backend.h>
#include <llama.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using seconds = std::chrono::duration<double>;
using steady = std::chrono::steady_clock;

/// Sums up what passed between stops.
class stopwatch {
public:
    bool stops_at_all = true;

    static bool stop(ggml_tensor* node, bool ask, void* self) {
        auto& watch = *static_cast<stopwatch*>(self);
        const bool product = is_product(*node);
        if (!watch.stops_at_all || (!product && node->op != GGML_OP_ROPE && !has(node->name, "kqv_out"))) return !ask;
        if (!ask) watch.stop(!product);
        return true;
    }
    void start() { attention_ = 0, stops_ = of_attention_ = 0, last_ = steady::now(); }
    /// Seconds of attention, where so many were lost to all stops.
    double attention(double lost) const { return attention_ - lost * of_attention_ / std::max(stops_, 1); }

private:
    static bool has(const char* name, const char* part) { return std::strstr(name, part) != nullptr; }
    static bool is_product(const ggml_tensor& node) {
        if (node.op != GGML_OP_MUL_MAT) return false;
        const char* const weights = node.src[0]->name;
        return has(weights, "attn_q.") || has(weights, "attn_k.") || has(weights, "attn_v.");
    }
    void stop(bool attends) {
        const auto now = steady::now();
        ++stops_;
        if (attends) attention_ += seconds(now - last_).count(), ++of_attention_;
        last_ = now;
    }

    double attention_ = 0;
    int stops_ = 0, of_attention_ = 0;
    steady::time_point last_;
};

ggml_type type_of(const std::string& name) {
    if (name == "f32") return GGML_TYPE_F32;
    if (name == "f16") return GGML_TYPE_F16;
    if (name == "q8_0") return GGML_TYPE_Q8_0;
    throw std::runtime_error("expected a cache f32, f16 or q8_0, got " + name);
}

/// Seconds of the fastest of several runs.
struct part {
    double whole = 1e9, with_stops = 1e9, attention = 0;
};

class engine {
public:
    engine(char** words, std::size_t tokens) : generated_(std::atoi(words[3])) {
        model_ = llama_model_load_from_file(words[1], llama_model_default_params());
        if (!model_) throw std::runtime_error(std::string("expected a model in ") + words[1]);
        llama_context_params params = llama_context_default_params();
        params.n_ctx = static_cast<unsigned>(tokens) + static_cast<unsigned>(generated_) + 1;
        params.n_batch = static_cast<unsigned>(tokens);
        params.n_threads = params.n_threads_batch = std::atoi(words[2]);
        params.type_k = params.type_v = type_of(words[4]);
        params.flash_attn_type =
            std::atoi(words[5]) != 0 ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
        params.cb_eval = stopwatch::stop, params.cb_eval_user_data = &watch_;
        context_ = llama_init_from_model(model_, params);
        if (!context_) throw std::runtime_error("expected a context, got none");
    }
    engine(const engine&) = delete;
    ~engine() { llama_free(context_), llama_model_free(model_); }

    /// Reads the tokens, then says the likeliest ones: times of both, and what was said.
    void say(std::vector<llama_token> tokens, bool stops, std::array<part, 2>& took, std::vector<llama_token>& said) {
        llama_memory_clear(llama_get_memory(context_), true);
        watch_.stops_at_all = stops;
        std::vector<llama_token> next;
        said.clear();
        const auto timed = [&](part& of, auto&& work) {
            watch_.start();
            const auto begin = steady::now();
            work();
            const double whole = seconds(steady::now() - begin).count();
            if (!stops)
                of.whole = std::min(of.whole, whole);
            else if (whole < of.with_stops)
                of.with_stops = whole, of.attention = watch_.attention(std::max(0.0, whole - of.whole));
        };
        timed(took[0], [&] { next = {read(tokens)}; });
        timed(took[1], [&] {
            for (int i = 0; i < generated_; ++i) said.push_back(next[0]), next[0] = read(next);
        });
        said.push_back(next[0]);
    }

private:
    /// The likeliest token behind these.
    llama_token read(std::vector<llama_token>& tokens) {
        if (llama_decode(context_, llama_batch_get_one(tokens.data(), static_cast<int>(tokens.size()))) != 0)
            throw std::runtime_error("llama_decode failed");
        const float* const logits = llama_get_logits_ith(context_, -1);
        const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model_));
        return static_cast<llama_token>(std::max_element(logits, logits + vocabulary) - logits);
    }

    stopwatch watch_;
    int generated_;
    llama_model* model_ = nullptr;
    llama_context* context_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 6) {
        std::fprintf(stderr, "usage: llama_attention MODEL THREADS GENERATED CACHE FLASH < TOKENS\n");
        return 2;
    }
    llama_log_set(
        [](ggml_log_level level, const char* text, void*) {
            if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
        },
        nullptr);
    ggml_backend_load_all();
    try {
        const std::vector<llama_token> tokens{std::istream_iterator<llama_token>(std::cin), {}};
        engine of(argv, tokens.size());
        std::vector<llama_token> said;
        std::array<part, 2> took;
        for (const bool stops : {false, false, false, true, true}) of.say(tokens, stops, took, said);
        std::printf("{\"prompt\": %f, \"generation\": %f, \"said\": [", took[0].attention / took[0].whole,
                    took[1].attention / took[1].whole);
        for (std::size_t i = 0; i < said.size(); ++i) std::printf("%s%d", i == 0 ? "" : ", ", said[i]);
        std::printf("]}\n");
    } catch (const std::exception& error) {
        std::fprintf(stderr, "llama_attention: %s\n", error.what());
        return 1;
    }
}
