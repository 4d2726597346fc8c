// llama_cpp_speed MODEL TOKENS GENERATED THREADS f32|f16|bf16: what llama.cpp takes for a prompt of the tokens in a
// file and for so many tokens behind it, for language_models.py. Then the same again a node of attention at a time, for
// the share that those nodes have of it: flash attention alone, without rotation and stores, which are nodes of their
// own.
#include <ggml-backend.h>
#include <llama.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// The scheduler computes what it has when a node is asked for, then that node: so the nodes of attention and those
/// right before them are.
class watched_attention {
public:
    double seconds = 0;

    static bool watch(ggml_tensor* node, bool ask, void* self) {
        return static_cast<watched_attention*>(self)->watch(*node, ask);
    }

private:
    bool watch(const ggml_tensor& node, bool ask) {
        const bool attends = node.op == GGML_OP_FLASH_ATTN_EXT;
        if (!ask) {
            if (attends) seconds += now() - begin_;
            begin_ = now();
            return true;
        }
        if (attends) before_.insert(last_);
        last_ = node.name;
        return attends || before_.contains(last_);
    }

    std::set<std::string> before_;
    std::string last_;
    double begin_ = 0;
};

struct spent {
    double prompt, prompt_attention, generation, generation_attention;
};

spent run(llama_model* model, std::vector<llama_token> tokens, int generated, int threads, ggml_type cache,
          watched_attention* watched) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<std::uint32_t>(tokens.size()) + static_cast<std::uint32_t>(generated) + 8;
    params.n_batch = static_cast<std::uint32_t>(tokens.size());
    params.n_threads = params.n_threads_batch = threads;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    params.type_k = params.type_v = cache;
    if (watched) params.cb_eval = watched_attention::watch, params.cb_eval_user_data = watched;
    llama_context* const context = llama_init_from_model(model, params);
    if (!context) throw std::runtime_error("no context");
    const int words = llama_vocab_n_tokens(llama_model_get_vocab(model));
    const auto decode = [&](std::vector<llama_token> part) {
        if (llama_decode(context, llama_batch_get_one(part.data(), static_cast<std::int32_t>(part.size()))) != 0)
            throw std::runtime_error("llama_decode failed");
        const float* const logits = llama_get_logits_ith(context, -1);
        return static_cast<llama_token>(std::max_element(logits, logits + words) - logits);
    };
    decode({tokens[0]});  // memory and threads
    if (watched) decode({tokens[0]});
    llama_memory_clear(llama_get_memory(context), true);
    const auto attention = [&] { return watched ? watched->seconds : 0; };
    const double begin = now(), before = attention();
    llama_token last = decode(tokens);
    const double middle = now(), between = attention();
    for (int i = 0; i < generated; ++i) last = decode({last});
    const spent took{middle - begin, between - before, now() - middle, attention() - between};
    llama_free(context);
    return took;
}

ggml_type type_of(const std::string& name) {
    if (name == "f32") return GGML_TYPE_F32;
    if (name == "f16") return GGML_TYPE_F16;
    if (name == "bf16") return GGML_TYPE_BF16;
    throw std::runtime_error("expected f32, f16 or bf16, got " + name);
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 6) throw std::runtime_error("expected MODEL TOKENS GENERATED THREADS CACHE");
    llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    ggml_backend_load_all();
    std::ifstream file(argv[2]);
    const std::vector<llama_token> tokens{std::istream_iterator<llama_token>(file), {}};
    llama_model* const model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model || tokens.empty()) throw std::runtime_error(std::string("no model in ") + argv[1] + ", or no tokens");
    const int generated = std::atoi(argv[3]), threads = std::atoi(argv[4]);
    const spent took = run(model, tokens, generated, threads, type_of(argv[5]), nullptr);
    watched_attention watched;
    const spent apart = run(model, tokens, generated, threads, type_of(argv[5]), &watched);
    std::printf("{\"prompt\": %g, \"generation\": %g, \"prompt_share\": %g, \"generation_share\": %g}\n", took.prompt,
                took.generation, apart.prompt_attention / apart.prompt, apart.generation_attention / apart.generation);
    llama_model_free(model);
    return 0;
} catch (const std::exception& wrong) {
    std::fprintf(stderr, "llama_cpp_speed: %s\n", wrong.what());
    return 1;
}
