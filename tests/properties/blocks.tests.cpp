#include <attune/workload.hpp>
#include "../kernels/variant_list.hpp"
#include "../support/workload_values.hpp"

#include <attune/runtime/detail/call.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <set>

using namespace attune;
using namespace attune::testing;
using support::shape;
using support::workload;

namespace {

struct verdict {
    std::int64_t blocks = 0, visited = 0, needed = 0, unmasked = 0, whole = 0;
};

/// Judges a block map against the mask itself: no block with a visible pair is skipped, none with a masked pair goes
/// without its mask.
verdict judge(const variant& v, const workload& call, const shape& s) {
    const block_map map = detail::blocks(*v.kernels, call.arguments(), {});
    const auto truth = reference::evaluate(v.graph, call.reference_arguments(), {.keep_visible = true});
    REQUIRE(map.batches == s.batches);
    REQUIRE(map.heads == s.heads);
    REQUIRE(map.query_blocks == (s.queries + map.query_block - 1) / map.query_block);
    REQUIRE(map.key_blocks == (s.keys + map.key_block - 1) / map.key_block);
    verdict result;
    bool skips_nothing_visible = true, masks_everything_hidden = true;
    for (int b = 0; b < map.batches; ++b)
        for (int h = 0; h < map.heads; ++h)
            for (int i = 0; i < map.query_blocks; ++i)
                for (int j = 0; j < map.key_blocks; ++j) {
                    bool any = false, all = true;
                    for (std::int64_t q = i * map.query_block;
                         q < std::min<std::int64_t>(s.queries, (i + 1) * map.query_block); ++q)
                        for (std::int64_t k = j * map.key_block;
                             k < std::min<std::int64_t>(s.keys, (j + 1) * map.key_block); ++k) {
                            const bool visible = truth.visible[static_cast<std::size_t>(
                                                     ((b * s.heads + h) * s.queries + q) * s.keys + k)] != 0;
                            any = any || visible, all = all && visible;
                        }
                    const int state = map.at(b, h, i, j);
                    REQUIRE(state <= 2);
                    skips_nothing_visible = skips_nothing_visible && (state != 0 || !any);
                    masks_everything_hidden = masks_everything_hidden && (state != 2 || all);
                    ++result.blocks, result.visited += state != 0, result.needed += any, result.unmasked += state == 2,
                        result.whole += all;
                }
    CHECK(skips_nothing_visible);
    CHECK(masks_everything_hidden);
    CHECK(map.visited() == result.visited);
    return result;
}

workload call_of(const variant& v, const shape& s, unsigned seed) {
    workload call(v.graph, s, seed, v.numbers);
    if (v.name == "dense_bias") sprinkle(call, "bias", -std::numeric_limits<float>::infinity(), 3);
    if (v.name == "longformer")  // few enough that most blocks have none
        for (std::size_t i = 0; i < call["is_global"].bytes.size(); ++i) call["is_global"].bytes[i] = i % 700 == 3;
    if (v.name == "documents")  // long enough to fill blocks
        for (std::size_t i = 0; i < call["document"].integers.size(); ++i)
            call["document"].integers[i] = static_cast<int>(i / 230);
    return call;
}

}  // namespace

TEST_CASE("a skipped block hides nothing visible, an unmasked one shows nothing hidden") {
    for (const variant& v : variants())
        for (const shape& s : {shape{.batches = 2,
                                     .heads = 2,
                                     .key_heads = 1,
                                     .queries = 700,
                                     .keys = 700,
                                     .depth = 32,
                                     .value_depth = 32},
                               shape{.queries = 131, .keys = 1031, .depth = 32, .value_depth = 32},
                               shape{.queries = 1031, .keys = 131, .depth = 32, .value_depth = 32},
                               shape{.queries = 1, .keys = 1, .depth = 32, .value_depth = 32}}) {
            INFO(v.name << " " << s.text());
            const workload call = call_of(v, s, 9);
            const verdict found = judge(v, call, s);
            std::printf(
                "%-16s %-24s %5lld blocks, %5lld visited, %5lld have a visible pair; %5lld without mask, %5lld wholly "
                "visible\n",
                v.name.c_str(), s.text().c_str(), static_cast<long long>(found.blocks),
                static_cast<long long>(found.visited), static_cast<long long>(found.needed),
                static_cast<long long>(found.unmasked), static_cast<long long>(found.whole));
            // Intervals say exactly which blocks these see; and what sees everything is never masked.
            static const std::set<std::string> exact{"plain", "causal_mask", "causal_last", "sliding",
                                                     "alibi", "documents",   "longformer",  "capped"};
            if (exact.contains(v.name)) CHECK(found.visited == found.needed);
        }
}

TEST_CASE("blocks beyond the key lengths are skipped") {
    for (const variant& v : variants()) {
        const shape s{
            .batches = 4, .heads = 2, .key_heads = 2, .queries = 150, .keys = 700, .depth = 32, .value_depth = 32};
        workload call = call_of(v, s, 10);
        const std::vector<std::int32_t> lengths{0, 1, 300, 700};
        call.set_lengths(lengths);
        INFO(v.name);
        const verdict found = judge(v, call, s);
        const block_map map = detail::blocks(*v.kernels, call.arguments(), {});
        for (int b = 0; b < map.batches; ++b)
            for (int i = 0; i < map.query_blocks; ++i)
                for (int j = 0; j < map.key_blocks; ++j) {
                    INFO("length " << lengths[static_cast<std::size_t>(b)] << ", query block " << i << ", key block "
                                   << j);
                    CHECK((map.at(b, 0, i, j) == 0 || j * map.key_block < lengths[static_cast<std::size_t>(b)]));
                }
        if (v.name == "plain" || v.name == "causal_mask" || v.name == "documents") CHECK(found.visited == found.needed);
    }
}
