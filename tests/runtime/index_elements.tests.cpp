// Indices are read from elements of every type; those of sums, and of rings.
#include "by_hand.hpp"
#include "index_call.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <array>

using Catch::Matchers::ContainsSubstring;

namespace {

using namespace attune;

namespace my {
using namespace attune::dsl;
inline constexpr auto rows = input<"rows", f32>(axis<"row">);
template <class T> inline constexpr auto place = input<"place", element_of<T>>(batch, key);
template <class T> constexpr auto row_at() {
    if constexpr (element_of<T> == boolean)
        return where(place<T>(b, kv_idx), 3, 0);
    else if constexpr (is_integer(element_of<T>))
        return place<T>(b, kv_idx);
    else
        return as_integer(place<T>(b, kv_idx) * 2.0);
}
template <class T> inline constexpr auto attention = softmax(q * t(k) + rows(row_at<T>())) * v;
inline constexpr auto words = input<"words", i32>(batch, position);
inline constexpr auto same_word = softmax(mask(q * t(k), words(b, q_idx) == words(b, kv_idx))) * v;
}  // namespace my

}  // namespace

TEMPLATE_TEST_CASE("an index is checked whatever elements it is read from", "", float, bfloat16, float16, float8_e4m3,
                   float8_e5m2, std::int64_t, std::int32_t, std::int16_t, std::int8_t, std::uint8_t, bool) {
    constexpr bool real = !std::is_integral_v<TestType>, flag = std::is_same_v<TestType, bool>;
    constexpr std::int64_t length = 4, stride = 3;
    std::array<TestType, index_calls::batches * length * stride> places{};  // between them, what is no place
    index_calls::call c;
    c.keys(length), c.values(length), c.reals("rows", {4});
    c.add("place", {places.data(), {index_calls::batches, length}, {length * stride, stride}});
    for (std::size_t i = 0; i < places.size(); ++i)
        places[i] = i % stride != 0 ? TestType(100.0f) : TestType(real ? 1.5f : 3.0f);
    CHECK(c.made<my::attention<TestType>>().empty());
    places[(2 * length + 1) * stride] = TestType(real ? -2.5f : flag ? 1.0f : 77.0f);
    if constexpr (flag) c.given[c.given.size() - 2].view = {c.plenty.data(), {3}};
    CHECK_THAT(c.made<my::attention<TestType>>(), ContainsSubstring(real ? "got -5" : flag ? "got 3" : "got 77"));
}

TEST_CASE("a sum says how long is what it adds, whatever another one says at the same index") {
    using namespace index_calls;
    call c;
    c.keys(4), c.values(4);
    c.reals("qr", {batches, heads, queries, 6}), c.reals("kr", {batches, 4, 6});
    for (const std::int64_t longer : {5, 6, 7, 60}) {
        c.reals("gains", {batches, longer});
        CHECK(c.made<formulas::of_two_lengths>().empty());
        c.given.pop_back();
    }
}

TEST_CASE("a ring holds the window of every query of a call, or the call is refused") {
    using namespace index_calls;
    std::vector<std::int32_t> oldest(batches * queries);
    for (const std::int64_t slots : {4, 5, 6}) {
        call c;
        c.keys(slots), c.values(slots);
        c.add("row_of", {oldest.data(), {batches, queries}});
        c.given.push_back({.name = "window", .is = attune::detail::named_argument::form::integer, .integer = 4});
        if (slots >= 4 + queries - 1)
            CHECK(c.made<formulas::in_ring>().empty());
        else
            CHECK_THAT(c.made<formulas::in_ring>(),
                       Catch::Matchers::Equals(
                           "attune: expected at least 5 in extent<2>(k), as the formula needs, got 4; try a longer "
                           "tensor, or fewer queries a call"));
        c.given.back().integer = 2147483647;
        CHECK_THAT(c.made<formulas::in_ring>(),
                   Catch::Matchers::StartsWith("attune: expected numbers of 32 bits in the number of same(...), got "));
    }
}

TEST_CASE("a table over position has an entry for each query and each key in use; of slots it needs none") {
    using namespace index_calls;
    const std::string too_short = "attune: expected an extent of at least ", words = ", got words: i32 (3, ";
    std::vector<std::int32_t> in_use{4, 5, 2};
    const auto made = [&](std::int64_t entries, bool with_lengths = true) {
        call c;
        c.keys(7), c.values(7);
        std::vector<std::int32_t> all(21);
        c.add("words", {all.data(), {batches, entries}});
        if (with_lengths) c.add("kv_lengths", {in_use.data(), {batches}});
        const attune::kernel only = call::kernel_of();
        const attune::graph_ir graph = attune::dsl::ir_of<my::same_word>;
        std::string explained;
        try {
            (void)attune::detail::explain(call::table_of(graph, only), c.given, {});
        } catch (const attune::error& e) {
            explained = e.what();
        }
        std::string said = c.made(graph);
        CHECK(explained == said);
        c.how.checked = true;
        CHECK(c.made(graph) == said);
        return said;
    };
    for (const std::int64_t entries : {5, 6, 7, 1}) CHECK(made(entries) == "");
    for (const std::int64_t entries : {4, 2, 0})
        CHECK_THAT(made(entries), ContainsSubstring(too_short +
                                                    "5 (the longer of queries and keys in use) or 1 along "
                                                    "position of words" +
                                                    words + std::to_string(entries)));
    CHECK_THAT(made(5, false), ContainsSubstring(too_short + "7 (the longer of queries and keys) or 1 along position"));
    in_use = {0, 0, 0};
    CHECK(made(2) == "");  // an entry for each query
    CHECK_THAT(made(0), ContainsSubstring(too_short + "2 "));

    // A prepared call looks each time.
    in_use = {4, 5, 2};
    call c;
    std::vector<std::int32_t> all(15);
    c.keys(7), c.values(7), c.add("words", {all.data(), {batches, 5}}), c.add("kv_lengths", {in_use.data(), {batches}});
    const attune::kernel only = call::kernel_of();
    const attune::graph_ir graph = attune::dsl::ir_of<my::same_word>;
    const attune::kernel_table table = call::table_of(graph, only);
    const auto prepared = attune::detail::prepare(table, c.given, c.how);
    CHECK(c.refusal_of([&] { attune::detail::call(*prepared); }) == "");
    in_use[2] = 6;
    CHECK_THAT(c.refusal_of([&] { attune::detail::call(*prepared); }), ContainsSubstring(too_short + "6 "));
    std::vector<std::int32_t> others{5, 1, 0};
    CHECK(c.refusal_of([&] {
        attune::detail::call(*prepared, std::vector{by_hand::view("kv_lengths", {others.data(), {batches}})});
    }) == "");
}

TEST_CASE("a table over position has an entry for each slot where kv_lengths lies on a GPU") {
    using namespace index_calls;
    // A driver that is always there.
    static const attune::detail::device_runtime devices{[](const char*, int) { return ""; }, note,
                                                        [](const attune::detail::device_call&) {}};
    attune::kernel only = call::kernel_of();
    only.target = "cuda";
    const attune::graph_ir graph = attune::dsl::ir_of<my::same_word>;
    attune::kernel_table table = call::table_of(graph, only);
    table.devices = &devices;
    std::int32_t in_use[] = {4, 5, 2};
    const attune::tensor lengths(in_use, {batches});
    const auto made = [&](std::int64_t entries, const attune::tensor& of_lengths) {
        call c;
        c.how.target = only.target;
        std::vector<std::int32_t> all(21);
        c.keys(7), c.values(7), c.add("words", {all.data(), {batches, entries}}), c.add("kv_lengths", of_lengths);
        return c.refusal_of([&] { attune::detail::call(table, c.given, c.how); });
    };
    for (const std::int64_t entries : {5, 7, 1}) CHECK(made(entries, lengths) == "");
    for (const std::int64_t entries : {7, 1}) CHECK(made(entries, lengths.in(attune::memory::cuda)) == "");
    for (const std::int64_t entries : {5, 6})
        CHECK_THAT(made(entries, lengths.in(attune::memory::cuda)),
                   Catch::Matchers::StartsWith("attune: expected an extent of at least 7 (the longer of queries and "
                                               "slots, as kv_lengths is on a GPU) or 1 along position of words, got "
                                               "words: i32 (3, " +
                                               std::to_string(entries)));
}
