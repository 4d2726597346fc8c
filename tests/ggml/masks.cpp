// The backend beside ggml's own for the CPU, over masks that test-backend-ops does not make: causal rows at any place
// of a cache, windows, rows that see nothing, sequences apart, and masks of none of these kinds; also with a cap, sinks
// and ALiBi of heads that are no power of two. ggml's own has the same numbers in f32, where it rounds nothing.
//
//     masks BACKEND.so [short]
//
// short: whether the backend declines short operations, and no others. ATTUNE_GGML_SMALLEST=0 has it take them.
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct shape {
    std::int64_t depth, heads, key_heads, queries, keys, batches;
    ggml_type cache;
    float max_bias = 0, softcap = 0;
    bool sinks = false;
};
using rule = std::function<float(std::int64_t batch, std::int64_t query, std::int64_t key)>;  // what the mask holds

constexpr ggml_type caches[] = {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_F32, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0};
constexpr float hidden = -std::numeric_limits<float>::infinity();

struct declined : std::runtime_error {
    using runtime_error::runtime_error;
};

/// Keys and values are those of of.cache; they lie in memory as `stored`.
std::vector<float> computed(ggml_backend_t backend, const shape& of, ggml_type stored, const rule& mask_of) {
    ggml_context* const context = ggml_init({16 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true});
    ggml_tensor* const q = ggml_new_tensor_4d(context, GGML_TYPE_F32, of.depth, of.queries, of.heads, of.batches);
    const auto new_cache = [&] {  // as llama.cpp has it: the heads of a token beside each other
        return ggml_new_tensor_4d(context, stored, of.depth, of.key_heads, of.keys, of.batches);
    };
    ggml_tensor *const k = new_cache(), *const v = new_cache();
    ggml_tensor* const mask = ggml_new_tensor_4d(context, GGML_TYPE_F16, of.keys, of.queries, 1, of.batches);
    ggml_tensor* const out =
        ggml_flash_attn_ext(context, q, ggml_permute(context, k, 0, 2, 1, 3), ggml_permute(context, v, 0, 2, 1, 3),
                            mask, 1 / std::sqrt(static_cast<float>(of.depth)), of.max_bias, of.softcap);
    ggml_tensor* const sinks = of.sinks ? ggml_new_tensor_1d(context, GGML_TYPE_F32, of.heads) : nullptr;
    ggml_flash_attn_ext_add_sinks(out, sinks);
    if (!ggml_backend_supports_op(backend, out)) throw declined("declined");
    ggml_cgraph* const graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, out);
    ggml_backend_buffer_t const buffer = ggml_backend_alloc_ctx_tensors(context, backend);

    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (ggml_tensor* each : {q, k, v}) {
        std::vector<float> values(static_cast<std::size_t>(ggml_nelements(each)));
        std::generate(values.begin(), values.end(), [&] { return normal(random); });
        const auto rounded = [&](ggml_type type) {
            std::vector<std::uint8_t> bytes(ggml_row_size(type, ggml_nelements(each)));
            ggml_quantize_chunk(type, values.data(), bytes.data(), 0, ggml_nrows(each), each->ne[0], nullptr);
            return bytes;
        };
        std::vector<std::uint8_t> bytes = rounded(each == q ? GGML_TYPE_F32 : of.cache);
        if (each != q && of.cache != GGML_TYPE_F32 && stored == GGML_TYPE_F32) {
            ggml_get_type_traits(of.cache)->to_float(bytes.data(), values.data(), ggml_nelements(each));
            bytes = rounded(GGML_TYPE_F32);
        }
        ggml_backend_tensor_set(each, bytes.data(), 0, bytes.size());
    }
    if (sinks) {
        std::vector<float> values(static_cast<std::size_t>(of.heads));
        std::generate(values.begin(), values.end(), [&] { return 2 * normal(random); });
        ggml_backend_tensor_set(sinks, values.data(), 0, ggml_nbytes(sinks));
    }
    std::vector<ggml_fp16_t> halves;
    for (std::int64_t b = 0; b < of.batches; ++b)
        for (std::int64_t i = 0; i < of.queries; ++i)
            for (std::int64_t j = 0; j < of.keys; ++j) halves.push_back(ggml_fp32_to_fp16(mask_of(b, i, j)));
    ggml_backend_tensor_set(mask, halves.data(), 0, ggml_nbytes(mask));

    const ggml_status status = ggml_backend_graph_compute(backend, graph);
    std::vector<float> result(static_cast<std::size_t>(ggml_nelements(out)));
    ggml_backend_tensor_get(out, result.data(), 0, ggml_nbytes(out));
    ggml_backend_buffer_free(buffer);
    ggml_free(context);
    if (status != GGML_STATUS_SUCCESS) throw std::runtime_error("failed");
    return result;
}

/// The square of the error by that of the values, as test-backend-ops has it.
double error(const std::vector<float>& got, const std::vector<float>& expected) {
    double wrong = 0, size = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        if (std::isfinite(got[i]) != std::isfinite(expected[i])) return 1;
        wrong += std::pow(got[i] - expected[i], 2), size += std::pow(expected[i], 2);
    }
    return size > 0 ? wrong / size : wrong;
}

struct counts {
    int done = 0, failed = 0;
};

void check(ggml_backend_t attune, ggml_backend_t cpu, const shape& of, counts& all) {
    const std::int64_t before = of.keys - of.queries - 40;
    const struct {
        const char* name;
        rule mask;
    } masks[] = {
        {"causal", [=](auto b, auto i, auto j) { return j <= before + i - b ? 0 : hidden; }},
        {"causal from a later key", [=](auto, auto i, auto j) { return j >= before && j <= before + i ? 0 : hidden; }},
        {"window", [=](auto, auto i, auto j) { return j <= before + i && j > before + i - 100 ? 0 : hidden; }},
        {"all", [](auto, auto, auto) { return 0.0f; }},
        {"nothing in some rows", [](auto b, auto i, auto) { return (b + i) % 3 ? 0 : hidden; }},
        {"sequences apart", [](auto, auto i, auto j) { return (i + j) % 3 ? hidden : 0; }},
        {"causal with a bias",
         [=](auto, auto i, auto j) { return j <= before + i ? 0.01f * static_cast<float>(j - before) : hidden; }}};
    for (const auto& mask : masks) {
        const double wrong =
            error(computed(attune, of, of.cache, mask.mask), computed(cpu, of, GGML_TYPE_F32, mask.mask));
        ++all.done;
        if (wrong < 1e-10) continue;
        ++all.failed;
        std::printf("%s: %s, depth %d, %d queries, %d keys, %d batch elements, max_bias %g, softcap %g%s: error %g\n",
                    ggml_type_name(of.cache), mask.name, static_cast<int>(of.depth), static_cast<int>(of.queries),
                    static_cast<int>(of.keys), static_cast<int>(of.batches), static_cast<double>(of.max_bias),
                    static_cast<double>(of.softcap), of.sinks ? ", sinks" : "", wrong);
    }
}

bool declines(ggml_backend_t attune, const shape& of) try {
    computed(attune, of, of.cache, [](auto, auto, auto) { return 0.0f; });
    return false;
} catch (const declined&) {
    return true;
}

void check_short(ggml_backend_t attune, counts& all) {
    for (const ggml_type cache : caches) {
        const bool right[] = {declines(attune, {64, 6, 2, 1, 256, 1, cache}),
                              !declines(attune, {64, 6, 2, 1, 16384, 1, cache}),
                              !declines(attune, {64, 6, 2, 64, 256, 1, cache})};
        for (const bool each : right) ++all.done, all.failed += !each;
    }
}

}  // namespace

int main(int argc, char** argv) try {
    const bool is_short = argc == 3 && std::string(argv[2]) == "short";
    if (argc != 2 && !is_short) throw std::runtime_error("expected BACKEND.so [short]");
    ggml_backend_load_all();
    if (!ggml_backend_load(argv[1])) throw std::runtime_error(std::string("cannot load ") + argv[1]);
    ggml_backend_t const cpu = ggml_backend_init_by_name("CPU", nullptr);
    ggml_backend_t const attune = ggml_backend_init_by_name("attune", nullptr);
    counts all;
    if (is_short) {
        check_short(attune, all);
        std::printf("%d operations, %d wrong\n", all.done, all.failed);
        return all.failed != 0;
    }
    for (const ggml_type cache : caches)
        for (const std::int64_t queries : {1, 4, 32, 67})
            for (const std::int64_t keys : {256, 1792})
                for (const std::int64_t batches : {1, 2})
                    check(attune, cpu, {64, 6, 2, queries, keys, batches, cache}, all);
    constexpr struct {
        float max_bias, softcap;
        bool sinks;
    } modified[] = {{0, 0, false}, {8, 0, false}, {0, 3, false}, {0, 0, true}, {4, 10, true}};
    for (const ggml_type cache : caches)
        for (const auto& scores : modified)
            for (const std::int64_t depth : {64, 128})
                for (const std::int64_t queries : {1, 67})
                    check(attune, cpu,
                          {depth, 6, 2, queries, 256, 2, cache, scores.max_bias, scores.softcap, scores.sinks}, all);
    std::printf("%d masks, %d wrong\n", all.done, all.failed);
    return all.failed != 0;
} catch (const std::exception& wrong) {
    std::fprintf(stderr, "masks: %s\n", wrong.what());
    return 2;
}
