#include "sizes.hpp"

#include <cmath>

namespace language_model {

sizes::sizes(const gguf& file) {
    const auto name = file.get<std::string_view>("general.architecture");
    gemma = name == "gemma3";
    if (!gemma && name != "llama") file.refuse("expected a model llama or gemma3, got " + std::string(name));
    const auto full = [&](std::string_view what) { return std::string(name) + "." + std::string(what); };
    const auto size = [&](std::string_view what) {
        const auto x = file.get<std::int64_t>(full(what));
        if (x < 1 || x > 1 << 24) file.refuse("expected " + full(what) + " from 1 to 2^24, got " + std::to_string(x));
        return x;
    };
    layers = size("block_count"), width = size("embedding_length"), inner = size("feed_forward_length");
    heads = size("attention.head_count"), key_heads = size("attention.head_count_kv"), longest = size("context_length");
    depth = gemma ? size("attention.key_length") : width / heads;
    window = gemma ? size("attention.sliding_window") : longest;
    vocabulary = static_cast<std::int64_t>(file.get<std::vector<std::string_view>>("tokenizer.ggml.tokens").size());
    epsilon = static_cast<float>(file.get<double>(full("attention.layer_norm_rms_epsilon")));
    base = file.get<double>(full("rope.freq_base"), 1e4), local_base = 1e4;
    if (const auto factor = file.get<double>(full("rope.scaling.factor"), 1.0); factor != 1)
        file.refuse("expected rotations that are not scaled, got " + full("rope.scaling.factor") + " of " +
                    std::to_string(factor));
    if (!gemma && width % heads != 0)
        file.refuse("expected heads that share the width evenly, got " + std::to_string(heads) + " of " +
                    std::to_string(width));
    if (heads % key_heads != 0 || depth % 2 != 0)
        file.refuse("expected heads that share key heads evenly and an even depth, got " + std::to_string(heads) +
                    ", " + std::to_string(key_heads) + " and " + std::to_string(depth));
    if (gemma && std::abs(epsilon - 1e-6f) > 1e-9f)  // that of queries and keys is a part of the formula
        file.refuse("expected a Gemma with an epsilon of 1e-6, got " + std::to_string(epsilon));
}

}  // namespace language_model
