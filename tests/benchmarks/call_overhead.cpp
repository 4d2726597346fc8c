// Nanoseconds of a call on one thread: whole, and with a kernel that does nothing - checks, choice, binding and hooks.
// Each once as attune::run makes it, all checks anew, once as a prepared call, and once as one with other tensors.
#include "variants.hpp"

#include <attune/common.hpp>
#include <attune/runtime.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <span>
#include <vector>

namespace {

using namespace attune::detail;
using arguments = std::vector<named_argument>;

/// The least of many means: what it costs where nothing else disturbs.
template <class Call> double nanoseconds(Call call) {
    using clock = std::chrono::steady_clock;
    double least = 1e9, spent = 0;
    for (int repeat = 0; repeat < 300 && spent < 2e9; ++repeat) {
        const auto start = clock::now();
        for (int i = 0; i < 100; ++i) call();
        const double took = std::chrono::duration<double, std::nano>(clock::now() - start).count();
        least = std::min(least, took / 100), spent += took;
    }
    return least;
}

named_argument view(std::string_view name, attune::tensor t) {
    return {.name = name, .is = named_argument::form::view, .view = t};
}

void print(const char* what, const attune::kernel_table& table, const arguments& given) {
    std::vector<attune::kernel> kernels(table.kernels.begin(), table.kernels.end());
    for (attune::kernel& k : kernels) k.call = [](void**) { return 0; };
    attune::kernel_table idle = table;
    idle.kernels = kernels;
    const attune::options how{.threads = 1};
    const auto prepared = prepare(table, given, how), prepared_idle = prepare(idle, given, how);
    arguments others;  // all that a layer has of its own
    for (const named_argument& each : given)
        if (each.name.starts_with("k") || each.name.starts_with("v") || each.name == "out") others.push_back(each);
    std::printf("%-46s %9.0f %9.0f %9.0f %9.0f %9.0f\n", what, nanoseconds([&] { call(table, given, how); }),
                nanoseconds([&] { call(*prepared); }), nanoseconds([&] { call(idle, given, how); }),
                nanoseconds([&] { call(*prepared_idle); }), nanoseconds([&] { call(*prepared_idle, others); }));
}

}  // namespace

int main() {
    std::printf("%-46s %9s %9s %9s %9s %9s\n%-46s %9s %9s %9s %9s %9s\n", "", "run", "prepared", "beside", "beside",
                "beside", "ns", "", "", "kernel", "prepared", "others");
    for (const std::int64_t length : {1, 16, 48}) {
        std::vector<float> data(static_cast<std::size_t>(length) * 64, 0.5f), result(data.size()), slope{0.1f};
        const attune::tensor in(data.data(), {1, 1, length, 64}), out(result.data(), {1, 1, length, 64});
        char name[64];
        std::snprintf(name, sizeof name, "ALiBi, %lld queries and keys", static_cast<long long>(length));
        print(name, table_of<bench::alibi_attention>(),
              {view("q", in), view("k", in), view("v", in), view("slopes", attune::tensor(slope.data(), {1})),
               view("out", out)});
    }

    constexpr std::int64_t sequences = 4, heads = 8, key_heads = 2, keys = 16384, tokens = 64, depth = 64;
    std::vector<float> q(sequences * heads * depth, 0.5f), out(q.size());
    std::vector<std::int32_t> lengths(sequences, 128), long_lengths(sequences, keys);
    const attune::tensor Q(q.data(), {sequences, heads, 1, depth}), O(out.data(), {sequences, heads, 1, depth});
    const auto lengths_of = [](std::vector<std::int32_t>& of) {
        return view("kv_lengths", attune::tensor(of.data(), {sequences}));
    };
    std::vector<float> cache(sequences * key_heads * keys * depth);
    const attune::tensor KV(cache.data(), {sequences, key_heads, keys, depth});
    print("decode of 4 x 128 keys, f32", table_of<attune::common::decode_attention>(),
          {view("q", Q), view("k", KV), view("v", KV), lengths_of(lengths), view("out", O)});

    constexpr std::int64_t blocks = keys / tokens, pages = sequences * blocks;
    std::vector<std::int8_t> pool(pages * key_heads * tokens * depth, 1);
    std::vector<float> scales(pages * key_heads * tokens, 0.01f);
    std::vector<std::int32_t> table(pages);
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::int32_t>(i);
    const attune::tensor P(pool.data(), {pages, key_heads, tokens, depth}),
        S(scales.data(), {pages, key_heads, tokens}), T(table.data(), {sequences, blocks});
    for (const bool all : {false, true})
        print(all ? "decode of 4 x 16384 keys, i8 in pages of 64" : "decode of 4 x 128 keys, i8 in pages of 64",
              table_of<attune::common::paged_attention>(),
              {view("q", Q), view("block_table", T), view("k_pages", P), view("k_scale", S), view("v_pages", P),
               view("v_scale", S), lengths_of(all ? long_lengths : lengths), view("out", O)});
}
