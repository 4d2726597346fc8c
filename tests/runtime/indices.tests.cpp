// Elements of the caller's tensors that are used as indices: page tables, gathered keys, buckets, short tables.
#include "index_call.hpp"

#include <attune/c.h>
#include <attune/dsl.hpp>
#include <attune/dsl/layers.hpp>
#include <attune/runtime/detail/c_variant.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/error.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;

namespace {

using namespace index_calls;

/// Three sequences over pools of 6 pages of 4 slots, 5 pages a sequence at most.
struct paged_call : call {
    std::vector<std::int32_t> table{0, 1, 2, 3, 4, 5, 4, 3, 2, 1, 1, 1, 1, 1, 1}, lengths{20, 9, 0};
    paged_call() {
        reals("k_pages", {6, key_heads, 4, depth});
        reals("v_pages", {6, key_heads, 4, value_depth});
        add("block_table", {table.data(), {batches, 5}});
        add("kv_lengths", {lengths.data(), {batches}});
    }
    std::int32_t& entry(int sequence, int page) { return table[static_cast<std::size_t>(sequence * 5 + page)]; }
    std::string made() { return call::made<formulas::paged>(); }
};

/// Keys of three sequences anywhere in a pool of 10.
struct gathered_call : call {
    std::vector<std::int32_t> slot_of{0, 1, 2, 3, 4, 5, 6, 7, 9, 9, 9, 9}, lengths{4, 4, 4};
    gathered_call() {
        reals("pool", {10, key_heads, depth});
        add("slot_of", {slot_of.data(), {batches, 4}});
        add("kv_lengths", {lengths.data(), {batches}});
        values(4);
    }
};

}  // namespace

TEST_CASE("an entry of a page table that is no page is refused by its place") {
    paged_call c;
    CHECK(c.made().empty());
    c.entry(1, 2) = 812;
    CHECK_THAT(c.made(),
               Equals("attune: expected block_table from 0 to 5, an index along page of k_pages, got 812 at "
                      "(batch 1, page 2); try entries that are places of k_pages wherever the lengths in use reach"));
    c.entry(1, 2) = -1;
    CHECK_THAT(c.made(), ContainsSubstring("got -1 at (batch 1, page 2);"));
    c.entry(1, 2) = 6, c.entry(0, 4) = std::numeric_limits<std::int32_t>::min();
    CHECK_THAT(c.made(), ContainsSubstring("got -2147483648 at (batch 0, page 4), the first of 2;"));
    c.entry(1, 2) = 5, c.entry(0, 4) = 0;
    CHECK(c.made().empty());
}

TEST_CASE("entries of a page table beyond the keys in use may be anything") {
    paged_call c;
    for (const int page : {3, 4}) c.entry(1, page) = 1000;
    for (int page = 0; page < 5; ++page) c.entry(2, page) = -7;
    CHECK(c.made().empty());
    c.lengths[1] = 12;  // the page is full
    CHECK(c.made().empty());
    c.lengths[1] = 13;
    CHECK_THAT(c.made(), ContainsSubstring("got 1000 at (batch 1, page 3);"));
    c.lengths = {0, 0, 1};
    CHECK_THAT(c.made(), ContainsSubstring("got -7 at (batch 2, page 0);"));
}

TEST_CASE("pages of keys and values that differ are refused") {
    paged_call c;
    c.given[3].view = {c.plenty.data(), {6, key_heads, 2, value_depth}};
    CHECK_THAT(c.made(),
               ContainsSubstring("expected the same number in extent<2>(k_pages) and extent<2>(v_pages), got 4 and 2; "
                                 "try tensors that are as long there"));
    c.given[3].view = {c.plenty.data(), {4, key_heads, 4, value_depth}};  // the pool of values holds fewer of them
    CHECK_THAT(c.made(),
               ContainsSubstring("expected block_table from 0 to 3, an index along page of v_pages, got 4 at "));
}

TEST_CASE("a fuzzer of page tables: refused if and only if an entry in use is no page") {
    std::mt19937 random(4);
    const auto below = [&](std::uint32_t n) { return static_cast<std::int32_t>(random() % n); };
    int refused = 0;
    for (int round = 0; round < 2000; ++round) {
        paged_call c;
        for (auto& each : c.lengths) each = below(21);
        for (auto& each : c.table) each = below(6);
        int bad = 0;
        for (int spoilt = below(4); spoilt > 0; --spoilt) {
            const std::int32_t wrong[] = {-1, 6, 7, 1 << 30, -(1 << 30)};
            c.table[static_cast<std::size_t>(below(15))] = wrong[below(5)];
        }
        for (int sequence = 0; sequence < batches; ++sequence)
            for (int page = 0; page < 5; ++page)
                bad += page * 4 < c.lengths[static_cast<std::size_t>(sequence)] &&
                       (c.entry(sequence, page) < 0 || c.entry(sequence, page) > 5);
        const std::string said = c.made();
        INFO(said);
        REQUIRE(said.empty() == (bad == 0));
        if (bad > 1) REQUIRE_THAT(said, ContainsSubstring("the first of " + std::to_string(bad) + ";"));
        refused += bad > 0;
    }
    CHECK(refused > 200);
    CHECK(refused < 1800);
}

TEST_CASE("gathered keys are in the pool that they are gathered from") {
    gathered_call c;
    CHECK(c.made<formulas::gathered>().empty());
    CHECK_THAT(
        c.made<formulas::shifted>(),
        Equals(
            "attune: expected slot_of(b, kv_idx) + 2 from 0 to 9, an index along place of pool, got 11 at "
            "(b 2, kv_idx 0), the first of 4; try entries that are places of pool wherever the lengths in use reach"));
    c.slot_of[7] = 10;
    CHECK_THAT(c.made<formulas::gathered>(), ContainsSubstring("got 10 at (batch 1, key 3);"));
    CHECK(c.made<formulas::clamped>().empty());  // the formula says what becomes of others
    c.lengths[1] = 3;
    CHECK(c.made<formulas::gathered>().empty());
    c.given.erase(c.given.begin() + 4);  // kv_lengths: all keys count
    CHECK_THAT(c.made<formulas::gathered>(), ContainsSubstring("got 10 at (batch 1, key 3);"));
}

TEST_CASE("long runs of keys are looked at from the first to the last") {
    constexpr std::int64_t length = 1000;
    std::vector<std::int32_t> slot_of(batches * length * 2);
    for (const std::int64_t stride : {1, 2})
        for (const std::int64_t at : {0, 127, 128, 511, 998, 999}) {
            call c;
            c.reals("pool", {10, key_heads, depth});
            c.add("slot_of", {slot_of.data(), {batches, length}, {length * stride, stride}});
            c.reals("v", {batches, 1, length, value_depth});
            c.given[0].view = {c.q.data(), {batches, 1, queries, depth}};
            c.given[1].view = {c.out.data(), {batches, 1, queries, value_depth}};
            c.given[2].view = {c.plenty.data(), {10, 1, depth}};
            const auto place = static_cast<std::size_t>((2 * length + at) * stride);
            slot_of[place] = 10;
            CHECK_THAT(c.made<formulas::gathered>(),
                       ContainsSubstring("got 10 at (batch 2, key " + std::to_string(at) + ");"));
            CHECK_THAT(c.made<formulas::shifted>(),
                       ContainsSubstring("got 12 at (b 2, kv_idx " + std::to_string(at) + ");"));
            slot_of[place] = 0;
            CHECK(c.made<formulas::gathered>().empty());
        }
}

TEST_CASE("what is read of keys ends with those in use") {
    std::vector<std::int32_t> next{3, 2, 1, 0, 0, 0, 0, 0, 0, 1, 2, 3}, lengths{4, 4, 4};
    call c;
    c.keys(4), c.values(4);
    c.add("slot_of", {next.data(), {batches, 4}});
    c.add("kv_lengths", {lengths.data(), {batches}});
    CHECK(c.made<formulas::linked>().empty());
    lengths[0] = 2;
    CHECK_THAT(
        c.made<formulas::linked>(),
        ContainsSubstring("expected slot_of from 0 to 1, the keys in use, an index along key of slot_of, got 3 at "
                          "(batch 0, key 0), the first of 2;"));
}

TEST_CASE("indices of queries are looked at in every call, those of pairs and channels if asked for") {
    std::vector<std::int32_t> row_of{0, 1, 2, 3, 4, 5}, bucket{0, 1, 2, 3, 4, 5, 6, 7};
    std::vector<std::uint8_t> code(batches * key_heads * 4 * depth);
    call c;
    c.keys(4), c.values(4);
    c.reals("rows", {6});
    c.add("row_of", {row_of.data(), {batches, queries}});
    CHECK(c.made<formulas::by_query>().empty());
    row_of[5] = 6;
    CHECK_THAT(c.made<formulas::by_query>(),
               ContainsSubstring("expected row_of from 0 to 5, an index along row of rows, got 6 at "
                                 "(batch 2, query 1);"));
    c.given.resize(4);
    c.reals("bias", {heads, 6});
    c.add("bucket", {bucket.data(), {queries, 4}});
    CHECK(c.made<formulas::bucketed>().empty());
    c.how.checked = true;
    CHECK_THAT(c.made<formulas::bucketed>(),
               ContainsSubstring("expected bucket from 0 to 5, an index along bucket of bias, got 6 at "
                                 "(query 1, key 2), the first of 2;"));
    bucket[6] = bucket[7] = 5;
    CHECK(c.made<formulas::bucketed>().empty());

    c.given.resize(2);
    c.values(4);
    c.reals("book", {200});
    c.add("code", {code.data(), {batches, key_heads, 4, depth}});
    CHECK(c.made<formulas::coded>().empty());
    code.back() = 200;
    CHECK_THAT(c.made<formulas::coded>(), ContainsSubstring("got 200 at (batch 2, key_head "));
    c.how.checked = false;
    CHECK(c.made<formulas::coded>().empty());
    ::setenv("ATTUNE_CHECKED", "1", 1);
    CHECK_THAT(c.made<formulas::coded>(), ContainsSubstring("got 200 at (batch 2, key_head "));
    ::unsetenv("ATTUNE_CHECKED");
    c.how.checked = true;
    c.given[3].view = {c.plenty.data(), {256}};  // holds whatever a byte can name
    CHECK(c.made<formulas::coded>().empty());
}

TEST_CASE("a gradient is added up at places of its tensor alone, whether the call is checked or not") {
    std::vector<std::int32_t> slot{0, 1, 2, 3, 4, 5};
    std::vector<float> table(6);
    const auto view = [](std::string_view name, const attune::tensor& t) {
        return attune::detail::named_argument{
            .name = name, .is = attune::detail::named_argument::form::view, .view = t};
    };
    const auto made = [&](const attune::graph_ir& graph, std::string_view name, std::int64_t length, bool checked) {
        call c;
        c.how.checked = checked;
        std::vector own{view(name, {table.data(), {length}})};
        if (name == "gates") own.push_back(view("slot", {slot.data(), {batches, queries}}));
        return c.made_gradient(graph, own);
    };
    for (const bool checked : {false, true}) {
        for (const attune::graph_ir& graph :
             {attune::dsl::ir_of<formulas::gated_gradient>, attune::dsl::ir_of<formulas::lifted_gradient>}) {
            slot.back() = 5;
            CHECK(made(graph, "gates", 6, checked).empty());
            slot.back() = 99;
            CHECK_THAT(made(graph, "gates", 6, checked),
                       Equals("attune: expected slot from 0 to 5, an index along slot of gates, got 99 at "
                              "(batch 2, query 1); try entries that are places of gates wherever the lengths in use "
                              "reach"));
        }
        // Positions, and channels, which a gradient counts itself.
        const attune::graph_ir by_query = attune::dsl::ir_of<formulas::added_rows_gradient>,
                               by_group = attune::dsl::ir_of<formulas::by_group_gradient>;
        CHECK(made(by_query, "rows", 2, checked).empty());
        CHECK_THAT(made(by_query, "rows", 1, checked), ContainsSubstring("along row of rows, got 1 at (q_idx 1);"));
        CHECK(made(attune::dsl::ir_of<formulas::added_in_a_branch_gradient>, "rows", 1, checked).empty());
        CHECK(made(by_group, "channel_gates", 2, checked).empty());
        CHECK_THAT(made(by_group, "channel_gates", 1, checked),
                   ContainsSubstring("along group of channel_gates, got 1"));
    }
}

TEST_CASE("a number of the call that is no place is refused without one") {
    call c;
    c.keys(4), c.values(4);
    c.reals("rows", {4});
    c.given.push_back({.name = "at", .is = attune::detail::named_argument::form::integer, .integer = 3});
    CHECK(c.made<formulas::at_a_number>().empty());
    c.given.back().integer = 4;
    CHECK_THAT(c.made<formulas::at_a_number>(),
               ContainsSubstring("expected at from 0 to 3, an index along row of rows, got 4; try"));
}

TEST_CASE("an index that a sum makes is looked at if asked for") {
    std::vector<std::int32_t> starts{0, 1};
    call c;
    c.keys(4), c.values(4);
    c.add("starts", {starts.data(), {2}});
    c.reals("rows", {3});
    c.how.checked = true;
    CHECK(c.made<formulas::by_sequence>().empty());
    c.given.back().view = {c.plenty.data(), {2}};
    CHECK_THAT(c.made<formulas::by_sequence>(),
               ContainsSubstring("from 0 to 1, an index along row of rows, got 2 at (q_idx 1);"));
    c.how.checked = false;
    CHECK(c.made<formulas::by_sequence>().empty());
}

TEST_CASE("queries whose positions nobody says are as many as keys") {
    call c;
    c.keys(4), c.values(4);
    c.reals("angles", {8, depth / 2});
    CHECK_THAT(c.made<formulas::turned>(),
               Equals("attune: expected as many queries as keys, as queries are counted from 0, got 2 and 4; "
                      "try their positions in the formula: rotary_half(q, cos, sin, q_idx + offset)"));
    CHECK(c.made<formulas::turned_at_the_end>().empty());
    std::vector<std::int32_t> lengths{4, 2, 3};
    c.add("kv_lengths", {lengths.data(), {batches}});
    CHECK(c.made<formulas::turned_at_the_end>().empty());
    lengths[1] = 1;  // fewer keys than queries: the first stands before the table
    CHECK_THAT(c.made<formulas::turned_at_the_end>(), ContainsSubstring("got -1 at (b 1, q_idx 0);"));
    c.given.resize(2);
    c.keys(2), c.values(2);
    c.reals("angles", {2, depth / 2});
    CHECK(c.made<formulas::turned>().empty());
    c.given.back().view = {c.plenty.data(), {1, depth / 2}};
    c.given[2].view = {c.plenty.data(), {batches, key_heads, 2, depth}};
    CHECK_THAT(c.made<formulas::turned>(), ContainsSubstring("from 0 to 0, an index along place of angles, got 1 at "));
    c.given.back().view = {c.plenty.data(), {2, depth / 4}};
    CHECK_THAT(c.made<formulas::turned>(), ContainsSubstring("an index along pair of angles, got 2 at (d_idx 2)"));
}

TEST_CASE("a table that is shorter than the positions that read it is refused") {
    call c;
    c.keys(4), c.values(4);
    c.reals("rows", {4});
    CHECK(c.made<formulas::by_position>().empty());
    c.given.back().view = {c.plenty.data(), {3}};
    CHECK_THAT(c.made<formulas::by_position>(),
               Equals("attune: expected kv_idx from 0 to 2, an index along row of rows, got 3 at (kv_idx 3); "
                      "try a longer rows, or positions that are in it"));
    CHECK(c.made<formulas::in_a_branch>().empty());  // the formula asks first
    std::vector<std::int32_t> lengths{3, 1, 2};
    c.add("kv_lengths", {lengths.data(), {batches}});
    CHECK(c.made<formulas::by_position>().empty());
    lengths[1] = 4;
    CHECK_THAT(c.made<formulas::by_position>(), ContainsSubstring("got 3 at (kv_idx 3);"));
}

TEST_CASE("what a channel alone is read at is as long as the channels say, whatever kernels do") {
    call c;
    c.values(4);
    std::vector<std::uint8_t> bytes(batches * key_heads * 4 * 4);
    c.add("packed", {bytes.data(), {batches, key_heads, 4, 4}});
    c.reals("groups", {2});
    CHECK(c.made<formulas::unpacked>().empty());
    c.given.back().view = {c.plenty.data(), {1}};
    CHECK_THAT(c.made<formulas::unpacked>(),
               ContainsSubstring("an index along group of groups, got 1 at (d_idx 4), the first of 4;"));
    c.given.back().view = {c.plenty.data(), {2}};
    c.given[c.given.size() - 2].view = {bytes.data(), {batches, key_heads, 4, 3}};
    CHECK_THAT(c.made<formulas::unpacked>(), ContainsSubstring("from 0 to 2, an index along byte of packed, got 3"));
    c.given[c.given.size() - 2].view = {bytes.data(), {batches, key_heads, 4, 4}, {32, 16, 1, 4}};
    CHECK_THAT(c.made<formulas::unpacked>(), ContainsSubstring("a stride of 1 along byte of packed"));
}

TEST_CASE("an index of channels is looked at for the depth of each tensor that it is read for") {
    constexpr int few = 4, wide = 8;
    call c;
    std::vector<std::uint8_t> bytes(256);
    std::vector<float> out(256);
    c.given[0].view = {c.q.data(), {batches, heads, queries, few}};
    c.given[1].view = {out.data(), {batches, heads, queries, wide}};
    SECTION("once in keys and once in values") {
        c.add("packed", {bytes.data(), {batches, key_heads, 4, 2}});
        c.add("of_values", {bytes.data(), {batches, key_heads, 4, 4}});
        CHECK(c.made(attune::dsl::ir_of<formulas::both_packed>, few, wide).empty());
        c.given.back().view = {bytes.data(), {batches, key_heads, 4, 2}};
        const std::string refusal = c.made(attune::dsl::ir_of<formulas::both_packed>, few, wide);
        CHECK_THAT(refusal, ContainsSubstring("an index along byte of of_values, got 2 at (d_idx 4)"));
    }
    SECTION("in keys and in an output") {
        c.reals("k", {batches, key_heads, 4, few}), c.reals("v", {batches, key_heads, 4, wide}), c.reals("groups", {2});
        CHECK(c.made(attune::dsl::ir_of<formulas::scaled_twice>, few, wide).empty());
        c.given.back().view = {c.plenty.data(), {1}};
        CHECK_THAT(c.made(attune::dsl::ir_of<formulas::scaled_twice>, few, wide),
                   ContainsSubstring("along group of groups, got 1 at (d_idx 4)"));
    }
}

TEST_CASE("what a sum runs over is as long as the sum says") {
    call c;
    c.keys(4), c.values(4);
    c.reals("qr", {batches, heads, queries, 6});
    c.reals("kr", {batches, 4, 6});
    CHECK(c.made<formulas::decoupled>().empty());
    c.given.back().view = {c.plenty.data(), {batches, 4, 7}};
    CHECK_THAT(c.made<formulas::decoupled>(),
               ContainsSubstring("expected at least 7 places along rope of qr, over which a sum runs, got 6;"));
}

TEST_CASE("the C functions check indices likewise, those of pairs if asked for") {
    static const attune::kernel_table& (*const table)() = []() -> const attune::kernel_table& {
        constexpr auto f32 = attune::element_type::f32;
        static const attune::kernel only{
            "noted", formulas::level, f32, f32, f32, f32, depth, value_depth, 16, 32, 1000, "{}", note, nullptr};
        static const attune::kernel_table made{.version = attune::kernel_table_version,
                                               .variant = "noted",
                                               .graph = attune::dsl::ir_of<formulas::bucketed>,
                                               .kernels = {&only, 1}};
        return made;
    };
    const attune_variant variant{ATTUNE_C_VERSION, &attune::detail::this_runtime, table};
    std::vector<float> numbers(1024);
    std::vector<std::int32_t> bucket{0, 1, 2, 3, 4, 9};
    const std::int64_t q[] = {1, 2, 2, depth}, k[] = {1, 2, 3, depth}, v[] = {1, 2, 3, value_depth},
                       out[] = {1, 2, 2, value_depth}, bias[] = {2, 9}, pairs[] = {2, 3};
    float written[1 * 2 * 2 * value_depth];
    const attune_argument all[] = {attune_tensor_argument("q", attune_dense(numbers.data(), ATTUNE_F32, 4, q)),
                                   attune_tensor_argument("k", attune_dense(numbers.data(), ATTUNE_F32, 4, k)),
                                   attune_tensor_argument("v", attune_dense(numbers.data(), ATTUNE_F32, 4, v)),
                                   attune_tensor_argument("bias", attune_dense(numbers.data(), ATTUNE_F32, 2, bias)),
                                   attune_tensor_argument("bucket", attune_dense(bucket.data(), ATTUNE_I32, 2, pairs)),
                                   attune_tensor_argument("out", attune_dense(written, ATTUNE_F32, 4, out))};
    attune_options how{};
    how.size = sizeof how, how.threads = 1;
    CHECK(attune_run(&variant, all, std::size(all), &how) == ATTUNE_OK);
    how.checked = 1;
    CHECK(attune_run(&variant, all, std::size(all), &how) == ATTUNE_REFUSED);
    CHECK_THAT(attune_error_text(), ContainsSubstring("got 9 at (query 1, key 2);"));
    bucket.back() = 8;
    CHECK(attune_run(&variant, all, std::size(all), &how) == ATTUNE_OK);
}
