// Few queries by tensor cores: against the reference in double precision on the rounded inputs; and calls that the
// other kernel for few queries takes.
#include "tensor_calls.hpp"

#include <algorithm>
#include <array>
#include <limits>

using namespace tensor_calls;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr const char* by_tensor_cores = "_cuda_tensor_decode_";

std::string missing() { return kernels<tensor::full>().entries.front().missing; }

template <const auto& Graph>
void check(const shape& of, element_type element, const std::vector<std::int32_t>& lengths = {},
           const options& how = on_device) {
    INFO(of.text());
    compare(call_of(dsl::ir_of<Graph>, of, element, lengths), detail::table_of<Graph>(), element, by_tensor_cores, how);
}

/// At the edges of tiles of rows, of blocks of 64 keys and of splits; fewer keys than a tile has; none in use.
template <const auto& Graph> void check_edges(element_type element, int depth, int value_depth) {
    const auto sizes = [&](std::int64_t heads, std::int64_t key_heads, std::int64_t queries, std::int64_t keys) {
        return shape{.batches = 2,
                     .heads = heads,
                     .key_heads = key_heads,
                     .queries = queries,
                     .keys = keys,
                     .depth = depth,
                     .value_depth = value_depth};
    };
    for (const std::int64_t queries : {1, 2, 3, 16}) check<Graph>(sizes(16, 2, queries, 333), element);
    for (const std::int64_t keys : {1, 63, 64, 65, 700}) check<Graph>(sizes(8, 2, 1, keys), element);
    check<Graph>(sizes(5, 1, 7, 2100), element);
    shape lengths = sizes(8, 2, 2, 700);
    lengths.batches = 4;
    for (const bool most_splits : {false, true})
        check<Graph>(lengths, element, {0, 1, 128, 333}, {.target = "cuda", .deterministic = most_splits});
}

}  // namespace

TEST_CASE("few queries by tensor cores come out as in the reference, whatever a formula says of a pair") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    check_edges<tensor::full>(element_type::bf16, 64, 64);
    check_edges<tensor::last>(element_type::bf16, 64, 64);
    check_edges<tensor::ends>(element_type::bf16, 64, 64);
    check_edges<tensor::of_heads>(element_type::bf16, 64, 64);
    check_edges<tensor::rotated>(element_type::bf16, 64, 64);
    check_edges<tensor::rounded>(element_type::bf16, 64, 64);
    check_edges<tensor_halves::all_pairs>(element_type::f16, 48, 80);
}

namespace {

constexpr std::int64_t depth = 64;

}  // namespace

TEST_CASE("few queries read keys and values in pages of 16 where they lie, by tensor cores") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    constexpr auto& formula = tensor::paged;
    for (const std::int64_t queries : {1, 3}) {
        const shape of{.batches = 2,
                       .heads = 8,
                       .key_heads = 2,
                       .queries = queries,
                       .keys = 1,
                       .depth = depth,
                       .value_depth = depth};
        workload call(dsl::ir_of<formula>, of, 7, {}, {{"block", 13}, {"page", 40}, {"token", 16}});
        for (const char* name : {"q", "out"}) call.convert(name, element_type::bf16);
        compare(call, detail::table_of<formula>(), element_type::bf16, by_tensor_cores);
        // Pages that overlap: those of keys begin at multiples of 8 bytes.
        attune::tensor& pages = call["k_pages"].view;
        constexpr std::array<std::int64_t, 4> extents{40, 2, 16, depth},
            strides{2 * 16 * depth - 4, 16 * depth, depth, 1};
        pages = attune::tensor(pages.type(), pages.data(), extents, strides);
        const explanation said = detail::explain(detail::table_of<formula>(), call.arguments(), on_device);
        CHECK(said.kernel.find(by_tensor_cores) == said.kernel.npos);
        CHECK_THAT(said.shapes,
                   ContainsSubstring("decode, for 1 to 16 queries, by tensor cores, which take rows that begin at "
                                     "multiples of 16 bytes"));
        call.reset_outputs();
        detail::call(detail::table_of<formula>(), call.arguments(), on_device);
        CHECK(call.largest_error(call.expected(), "out") < tolerance(element_type::bf16));
    }
}

TEST_CASE("few queries read by tensor cores what their call stores, and not what lay there") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    for (const std::int64_t queries : {1, 5}) {
        constexpr std::int64_t keys = 130;
        const shape of{.batches = 2,
                       .heads = 8,
                       .key_heads = 2,
                       .queries = queries,
                       .keys = keys,
                       .depth = depth,
                       .value_depth = depth};
        workload call = call_of(dsl::ir_of<tensor::stored>, of, element_type::bf16, {keys, 70});
        constexpr std::uint16_t nan = 0x7fc0;
        for (const char* name : {"k", "v"})
            for (std::int64_t row = 0; row < 4; ++row)
                for (std::int64_t key = (row < 2 ? keys : 70) - queries; key < (row < 2 ? keys : 70); ++key)
                    std::fill_n(call[name].halves.begin() + (row * keys + key) * depth, depth, nan);
        const auto expected = call.expected();
        compare(call, detail::table_of<tensor::stored>(), element_type::bf16, by_tensor_cores);
        for (const char* name : {"k", "v"}) CHECK(call.largest_error(expected, name) == 0);
    }
}

namespace {

/// How many outputs of 3 queries and 700 keys are not finite where one number of the second key head is not.
template <const auto& Graph> std::size_t spoilt(const char* input, std::int64_t key, float value) {
    CAPTURE(input, key, value);
    constexpr std::int64_t keys = 700;
    const shape of{.heads = 8, .key_heads = 2, .queries = 3, .keys = keys, .depth = depth, .value_depth = depth};
    const workload call = call_of(dsl::ir_of<Graph>, of, element_type::bf16, {},
                                  {{input, static_cast<std::size_t>((keys + key) * depth + 9), value}});
    compare(call, detail::table_of<Graph>(), element_type::bf16, by_tensor_cores);
    const auto expected = call.expected();
    std::size_t found = 0;
    for (const double each : expected["out"].values) found += !std::isfinite(each);
    return found;
}

}  // namespace

TEST_CASE("of few queries, too, what is not finite comes out of the rows that see it and of no other") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    const auto check_all = [&]<const auto & Graph>() {
        constexpr float nan = std::numeric_limits<float>::quiet_NaN(),
                        infinity = std::numeric_limits<float>::infinity();
        for (const float value : {nan, infinity}) {
            CHECK(spoilt<Graph>("v", 699, value) == 4 * 1);  // one of three queries sees it
            CHECK(spoilt<Graph>("v", 698, value) == 4 * 2);
            CHECK(spoilt<Graph>("v", 2, value) == 4 * 3);
        }
        CHECK(spoilt<Graph>("k", 699, nan) == 4 * 1 * depth);
    };
    check_all.operator()<tensor::last>();
    check_all.operator()<tensor::ends>();
}

TEST_CASE("what splits leave of each row is counted as it lies there, in tiles of 16 rows") {
    const shape of{.heads = 8, .key_heads = 2, .queries = 1, .keys = 700, .depth = depth, .value_depth = depth};
    const workload call = call_of(dsl::ir_of<tensor::full>, of, element_type::bf16);
    const explanation said = detail::explain(detail::table_of<tensor::full>(), call.arguments(), on_device);
    CHECK(said.split_bytes == static_cast<std::size_t>(2 * said.key_splits * 16 * (depth + 8)) * sizeof(float));
}
