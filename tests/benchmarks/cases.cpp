#include "cases.hpp"

#include <algorithm>

namespace bench {

using attune::element_type;

std::int64_t benchmark_case::visible_pairs() const {
    const auto triangle = [](std::int64_t n) { return n * (n + 1) / 2; };
    std::int64_t pairs = 0;  // of one head, summed over the batch
    if (variant == "full" || variant == "bias" || variant == "chat") {
        pairs = batch * queries * used;
    } else if (variant == "padded") {
        for (std::int64_t b = 0; b < batch; ++b) pairs += queries * keys_in_use(b, keys);
    } else if (variant == "window") {
        for (std::int64_t i = 0; i < queries; ++i) pairs += batch * std::min(i + 1, window_keys);
    } else if (variant == "documents" || variant == "documents_causal") {
        for (const std::int64_t n : document_lengths) pairs += batch * (variant == "documents" ? n * n : triangle(n));
    } else if (variant == "moba" ||
               variant == "nsa") {  // of nsa at most: a chosen block may be one that is always seen
        const bool nsa = variant == "nsa";
        for (std::int64_t i = 0; i < queries; ++i) {
            const std::int64_t own = i / block_keys, before = std::min(own, nsa ? nsa_blocks + 2 : moba_blocks);
            pairs += batch * (before * block_keys + i % block_keys + 1);
            if (nsa) pairs += batch * ((i + 1) / block_keys + std::min(i + 1, nsa_window));
        }
    } else {
        pairs = batch * triangle(queries) * (variant == "differential" ? 2 : 1);
    }
    return heads * pairs;
}

double benchmark_case::bytes() const {
    const std::int64_t more = variant == "differential" ? 1 : 0;  // q2 and k2
    const std::int64_t elements = (2 + more) * batch * depth * (heads * queries + key_heads * used);
    return static_cast<double>(elements * attune::bytes_of(element));
}

const std::vector<benchmark_case>& cases() {
    static const std::vector<benchmark_case> all = [] {
        std::vector<benchmark_case> table;
        const auto add = [&](const std::string& name, const char* variant, element_type element, std::int64_t batch,
                             std::int64_t heads, std::int64_t key_heads, std::int64_t queries, std::int64_t keys,
                             std::int64_t depth) {
            table.push_back({name + "/D" + std::to_string(depth) + "/" + std::string(name_of(element)), variant,
                             element, batch, heads, key_heads, queries, keys, depth});
        };
        const auto f32 = element_type::f32, bf16 = element_type::bf16;
        for (const auto element : {f32, bf16})
            for (const char* variant : {"full", "causal"})
                for (const std::int64_t depth : {64, 128})
                    add(std::string(variant) + "/S2048", variant, element, 1, 8, 8, 2048, 2048, depth);
        for (const std::int64_t depth : {64, 128}) {
            add("causal/S512", "causal", f32, 4, 8, 8, 512, 512, depth);
            for (const char* variant : {"alibi", "softcap", "bias", "differential"})
                add(std::string(variant) + "/S2048", variant, f32, 1, 8, 8, 2048, 2048, depth);
            for (const char* variant : {"window", "documents", "documents_causal"})
                add(std::string(variant) + "/S4096", variant, f32, 1, 8, 8, 4096, 4096, depth);
            for (const auto element : {f32, bf16}) add("gqa/S2048", "causal", element, 1, 8, 2, 2048, 2048, depth);
        }
        add("moba/S4096", "moba", f32, 1, 8, 8, 4096, 4096, 64);
        add("nsa/S4096", "nsa", f32, 1, 8, 2, 4096, 4096, 64);
        for (const auto element : {f32, bf16})
            for (const std::int64_t batch : {1, 4})
                add("decode/B" + std::to_string(batch), "full", element, batch, 32, 8, 1, 16384, 128);
        add("decode/one_group", "full", f32, 1, 8, 8, 1, 16384, 128);
        for (const std::int64_t used : {32, 128, 512, 2048, 4096}) {  // a small model with room for 4160 tokens
            add("chat/K" + std::to_string(used), "chat", f32, 1, 9, 3, 1, 4160, 64);
            table.back().used = used;
        }
        add("short/padded", "padded", f32, 64, 12, 12, 128, 128, 32);
        for (const std::int64_t length : {512, 1024, 4096, 8192})
            add("lengths/S" + std::to_string(length), "full", f32, 1, 2 * std::max<std::int64_t>(1, 2048 / length),
                2 * std::max<std::int64_t>(1, 2048 / length), length, length, 64);
        for (const std::int64_t depth : {32, 80, 96, 112, 256})
            add("depths/S2048", "full", f32, 1, 4, 4, 2048, 2048, depth);
        return table;
    }();
    return all;
}

}  // namespace bench
