// The calls of servers and trainers: packed queries, pages, prepared calls, gradients, stores, chosen blocks, shards.
#include "../gradients/gradient_call.hpp"
#include "../gradients/variants.hpp"
#include "calls.hpp"
#include "variants.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <attune/common.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace soak {
namespace {

using namespace attune::common;
constexpr std::int64_t width = 64;

/// Sequences' caches side by side, and how much of each is in use.
struct cache {
    std::int64_t sequences, key_heads, room;
    std::vector<float> k = filled(sequences * key_heads * room * width, 1.3f),
                       v = filled(sequences * key_heads * room * width, 2.1f);
    std::vector<std::int32_t> lengths = std::vector<std::int32_t>(static_cast<std::size_t>(sequences));

    attune::tensor view(std::vector<float>& data) const {
        return attune::tensor(data.data(), {sequences, key_heads, room, width});
    }
    attune::tensor in_use() { return attune::tensor(lengths.data(), {sequences}); }
};

std::uint64_t hash_of(const std::vector<float>& data) {
    return hash(0, data.data(), static_cast<std::int64_t>(data.size()));
}

}  // namespace

void packed_queries(std::mt19937& random) {
    static constexpr std::int32_t queries_of[][4] = {{1, 1, 1, 1}, {1, 17, 1, 1}, {3, 0, 40, 2}, {1, 130, 5, 1}};
    const auto& queries = one_of(queries_of, random);
    cache c{.sequences = 4, .key_heads = 2, .room = 300};
    std::vector<std::int32_t> where{0};
    for (std::size_t i = 0; i < 4; ++i) {
        where.push_back(where.back() + queries[i]);
        c.lengths[i] = std::max(queries[i], static_cast<std::int32_t>(70 * i));
    }
    const std::int64_t rows = where.back(), heads = 4;
    std::vector<float> asked = filled(heads * rows * width, 0.7f), result(asked.size());
    attune::run<decode_attention>(q = attune::tensor(asked.data(), {1, heads, rows, width}), k = c.view(c.k),
                                  v = c.view(c.v), out = attune::tensor(result.data(), {1, heads, rows, width}),
                                  cu_seqlens_q = attune::tensor(where.data(), {5}), kv_lengths = c.in_use(),
                                  drawn_options(random));
    remember(fmt::format("packed {}", fmt::join(queries, " ")), hash_of(result));
}

/// The pages of the sequences lie in another order each time, which may change nothing; nor may what lies elsewhere.
void pages(std::mt19937& random) {
    const std::int64_t tokens = one_of({16, 64}, random), sequences = 3, heads = 4, key_heads = 2, blocks = 5;
    const std::int64_t used = sequences * blocks, count = used + 3, of_page = key_heads * tokens;
    std::vector<std::int32_t> table(static_cast<std::size_t>(used)), lengths{7, 0, static_cast<std::int32_t>(70)};
    std::vector<std::int32_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    std::vector<std::int8_t> k_codes(static_cast<std::size_t>(count * of_page * width), 127), v_codes = k_codes;
    std::vector<float> scales(static_cast<std::size_t>(count * of_page), std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t block = 0; block < used; ++block) {
        const std::int64_t page = order[static_cast<std::size_t>(block)];
        const bool in_use = block % blocks * tokens < lengths[static_cast<std::size_t>(block / blocks)];
        table[static_cast<std::size_t>(block)] = in_use ? static_cast<std::int32_t>(page) : -1000;
        for (std::int64_t i = 0; i < of_page * width; ++i) {
            const auto at = static_cast<std::size_t>(page * of_page * width + i);
            k_codes[at] = static_cast<std::int8_t>((block * 31 + i * 7) % 251 - 125);
            v_codes[at] = static_cast<std::int8_t>((block * 17 + i * 3) % 241 - 120);
        }
        for (std::int64_t i = 0; i < of_page; ++i)
            scales[static_cast<std::size_t>(page * of_page + i)] = 0.001f * static_cast<float>(1 + (block + i) % 9);
    }
    std::vector<float> asked = filled(sequences * heads * width, 0.7f), result(asked.size());
    const std::int64_t pool[] = {count, key_heads, tokens, width};
    const attune::tensor scale(scales.data(), {count, key_heads, tokens});
    const auto shaped = [&](std::vector<float>& data) {
        return attune::tensor(data.data(), {sequences, heads, 1, width});
    };
    attune::run<paged_attention>(q = shaped(asked), block_table = attune::tensor(table.data(), {sequences, blocks}),
                                 k_pages = attune::tensor(k_codes.data(), pool), k_scale = scale,
                                 v_pages = attune::tensor(v_codes.data(), pool), v_scale = scale, out = shaped(result),
                                 kv_lengths = attune::tensor(lengths.data(), {sequences}), drawn_options(random));
    remember(fmt::format("pages of {}", tokens), hash_of(result));
}

/// A sequence that grows, its call prepared once.
void prepared(std::mt19937& random) {
    const std::int64_t heads = 8;
    cache c{.sequences = 2, .key_heads = 4, .room = 200};
    std::vector<float> asked = filled(c.sequences * heads * width, 0.7f), result(asked.size());
    const auto shaped = [&](std::vector<float>& data) {
        return attune::tensor(data.data(), {c.sequences, heads, 1, width});
    };
    const auto call =
        attune::prepare<decode_attention>(q = shaped(asked), k = c.view(c.k), v = c.view(c.v), out = shaped(result),
                                          kv_lengths = c.in_use(), drawn_options(random));
    for (std::int32_t step = 0; step < 8; ++step) {
        c.lengths = {step * 25, 200 - step};
        call();
        remember(fmt::format("prepared {}", step), hash_of(result));
    }
    try {
        c.lengths[1] = 201;
        call();
        failed("a prepared call took more keys than there is room for");
    } catch (const attune::error&) {
        // as it has to be
    }
}

void gradient(std::mt19937& random) {
    namespace g = golden_gradients;
    static constexpr attune::support::shape sizes[] = {
        {.batches = 1, .heads = 2, .key_heads = 1, .queries = 50, .keys = 50, .depth = 32, .value_depth = 32},
        {.batches = 2, .heads = 4, .key_heads = 2, .queries = 97, .keys = 97, .depth = 32, .value_depth = 32},
        {.batches = 1, .heads = 1, .key_heads = 1, .queries = 1, .keys = 1, .depth = 32, .value_depth = 32}};
    const attune::support::shape& s = one_of(sizes, random);
    const auto run = [&](const char* name, const attune::graph_ir& forward, const attune::graph_ir& of,
                         const attune::kernel_table& kernels) {
        attune::testing::gradient_call call(forward, of, s, 7);
        call.run(kernels, static_cast<int>(random() % 4));
        std::uint64_t result = 0;
        for (const auto& each : call.results)
            result = hash(result, each.reals.data(), static_cast<std::int64_t>(each.size));
        remember(fmt::format("gradient of {} {}", name, s.text()), result);
    };
    using attune::detail::table_of;
    using attune::dsl::ir_of;
    switch (random() % 3) {
        case 0: return run("causal", ir_of<g::causal_only>, ir_of<g::causal_gradient>, table_of<g::causal_gradient>());
        case 1: return run("alibi", ir_of<g::alibi>, ir_of<g::alibi_gradient>, table_of<g::alibi_gradient>());
        default: return run("rope", ir_of<g::rope>, ir_of<g::rope_gradient>, table_of<g::rope_gradient>());
    }
}

/// Steps of two sequences that store their keys and values; nothing else of the caches may change.
void stores(std::mt19937& random) {
    const std::int64_t queries = one_of({1, 3, 40}, random), keys = 130, of_heads = 2;
    attune::support::workload call(attune::dsl::ir_of<soaked::step>,
                                   {.batches = 2,
                                    .heads = 4,
                                    .key_heads = of_heads,
                                    .queries = queries,
                                    .keys = keys,
                                    .depth = 32,
                                    .value_depth = 32},
                                   1);
    call.set_lengths({static_cast<std::int32_t>(keys) - 7, static_cast<std::int32_t>(queries)});
    for (int times = 0; times < 2; ++times) {  // the second stores the same again
        attune::detail::call(attune::detail::table_of<soaked::step>(), call.arguments(), drawn_options(random));
        remember(fmt::format("stores {}", queries),
                 hash(hash_of(call["out"].reals), call["k"].reals.data(), std::ssize(call["k"].reals)));
    }
}

void choices(std::mt19937& random) {
    const std::int64_t queries = one_of({1, 33, 200}, random), chosen = one_of({0, 2, 7}, random);
    attune::support::workload call(
        attune::dsl::ir_of<soaked::chosen>,
        {.batches = 2, .heads = 4, .key_heads = 2, .queries = queries, .keys = 200, .depth = 32, .value_depth = 32}, 1,
        {{"count", static_cast<double>(chosen)}});
    attune::detail::call(attune::detail::table_of<soaked::chosen>(), call.arguments(), drawn_options(random));
    remember(fmt::format("choices {} {}", queries, chosen), hash_of(call["out"].reals));
}

/// The keys in parts, one call after the other; the last parts may be empty.
void shards(std::mt19937& random) {
    namespace of = attune::dsl::of_shard;
    static constexpr std::int64_t parts_of[][3] = {{90, 0, 0}, {1, 88, 1}, {30, 30, 30}, {64, 26, 0}};
    const auto& parts = one_of(parts_of, random);
    const std::int64_t heads = 4, key_heads = 2, length = 90, depth = 32;
    const auto all = static_cast<std::int32_t>(length);
    const auto asked = filled(heads * length * depth, 0.7f), k_data = filled(key_heads * length * depth, 1.3f),
               v_data = filled(key_heads * length * depth, 2.1f);
    std::vector<std::int32_t> positions(static_cast<std::size_t>(length));
    std::iota(positions.begin(), positions.end(), 0);
    std::vector<float> made[] = {std::vector<float>(asked.size()), std::vector<float>(asked.size())};
    std::vector<float> sums[] = {std::vector<float>(static_cast<std::size_t>(heads * length)), {}};
    std::ranges::fill(sums[0], -std::numeric_limits<float>::infinity()), sums[1] = sums[0];
    const auto rows = [&](const std::vector<float>& data, std::int64_t first, std::int64_t count) {
        return attune::tensor(data.data() + first * depth, {1, key_heads, count, depth},
                              {key_heads * length * depth, length * depth, depth, 1});
    };
    const auto shaped = [&](std::vector<float>& data) {
        return attune::tensor(data.data(), {1, heads, length, depth});
    };
    const auto of_rows = [&](std::vector<float>& data) { return attune::tensor(data.data(), {1, heads, length}); };
    std::int64_t first = 0;
    std::size_t now = 0;
    for (const std::int64_t count : parts) {
        attune::run<soaked::causal_shard>(
            q = attune::tensor(asked.data(), {1, heads, length, depth}), k = rows(k_data, first, count),
            v = rows(v_data, first, count), of::query_positions = attune::tensor(positions.data(), {length}),
            of::key_positions = attune::tensor(positions.data() + first, {count}),
            of::lengths = attune::tensor(&all, {1}), before(out) = shaped(made[now]), before(lse) = of_rows(sums[now]),
            out = shaped(made[1 - now]), lse = of_rows(sums[1 - now]), drawn_options(random));
        first += count, now = 1 - now;
    }
    remember(fmt::format("shards {}", fmt::join(parts, " ")), hash_of(made[now]));
}

}  // namespace soak
