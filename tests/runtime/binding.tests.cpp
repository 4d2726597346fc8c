#include "fake_variant.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

using attune::detail::named_argument, attune::tensor;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The arguments with one of them replaced by `view`.
std::vector<named_argument> with(fake::call& c, std::string_view name, tensor view) {
    auto all = c.arguments();
    const auto at = std::find_if(all.begin(), all.end(), [&](const named_argument& a) { return a.name == name; });
    if (at == all.end())
        all.push_back({.name = name, .view = view});
    else
        at->view = view;
    return all;
}

/// Refused with both parts of the message, no kernel called and nothing written.
void check_refused(fake::call& c, const std::vector<named_argument>& arguments, const std::string& expected,
                   const std::string& got = "") {
    fake::reset();
    const std::string message = fake::refusal(arguments);
    CHECK_THAT(message, ContainsSubstring("attune: expected " + expected) && ContainsSubstring(", got " + got) &&
                            ContainsSubstring("; try "));
    CHECK(c.untouched());
    CHECK(fake::seen.calls == 0);
}

}  // namespace

TEST_CASE("a call by name reaches the kernel and computes") {
    fake::call c;
    using namespace fake;
    attune::run<variant>(attune::options{.threads = 1}, out = c.O(), w = 1, q = c.Q(), k = c.K(), v = c.V(),
                         fake::slopes = c.S(), bias = c.B(), is_global = c.G(), fake::table = c.T(), gain = 0.5,
                         lse = c.L());
    c.expect_right_results();
}

TEST_CASE("strides, const inputs, u8 for boolean and broadcasting reach the kernel") {
    fake::call c;
    SECTION("q stored (batch, query, head, depth)") {
        auto stored = c.q;
        for (std::int64_t b = 0; b < 2; ++b)
            for (std::int64_t h = 0; h < 4; ++h)
                for (std::int64_t i = 0; i < 5; ++i)
                    for (std::int64_t d = 0; d < 8; ++d)
                        stored[static_cast<std::size_t>(((b * 5 + i) * 4 + h) * 8 + d)] =
                            c.q[static_cast<std::size_t>(((b * 4 + h) * 5 + i) * 8 + d)];
        CHECK(fake::refusal(
                  with(c, "q", tensor(static_cast<const float*>(stored.data()), {2, 5, 4, 8}).swapped(1, 2))) == "");
    }
    SECTION("one slope for all heads") {
        const float slope = c.slopes[1];
        std::fill(c.slopes.begin(), c.slopes.end(), slope);
        CHECK(fake::refusal(with(c, "slopes", tensor(&slope, {1}))) == "");
    }
    SECTION("a bias of the keys alone, last axis not dense") {
        std::vector<float> wide(14);
        for (std::size_t i = 0; i < c.bias.size(); ++i) c.bias[i] = wide[i % 7 * 2] = static_cast<float>(i % 7) * 0.25f;
        CHECK(fake::refusal(with(c, "bias", tensor(wide.data(), {1, 1, 1, 7}, {0, 0, 0, 2}))) == "");
    }
    SECTION("the batch of k and v") {
        for (auto* x : {&c.k, &c.v})
            std::copy_n(x->begin(), x->size() / 2, x->begin() + static_cast<std::ptrdiff_t>(x->size() / 2));
        auto all = with(c, "k", tensor(c.k.data(), {1, 2, 7, 8}));
        all[2].view = tensor(c.v.data(), {1, 2, 7, 4});
        CHECK(fake::refusal(all) == "");
    }
    SECTION("bool elements") {
        bool flags[7] = {false, true, false, false, true, false, true};
        std::copy(std::begin(flags), std::end(flags), c.is_global.begin());
        CHECK(fake::refusal(with(c, "is_global", tensor(flags, {7}))) == "");
    }
    SECTION("positions reversed by a negative stride") {
        std::reverse(c.is_global.begin(), c.is_global.end());
        auto reversed = c.is_global;
        std::reverse(reversed.begin(), reversed.end());
        CHECK(fake::refusal(with(c, "is_global", tensor(&reversed.back(), {7}, {-1}))) == "");
    }
    SECTION("an axis of extent 1 may have any stride") {
        CHECK(fake::refusal(with(c, "table", tensor(c.table.data(), {1}, {std::int64_t{1} << 40}))) == "");
    }
    SECTION("lse stored (batch, query, head)") {
        std::vector<float> stored(c.lse.size());
        CHECK(fake::refusal(with(c, "lse", tensor(stored.data(), {2, 5, 4}).swapped(1, 2))) == "");
        for (std::size_t i = 0; i < stored.size(); ++i) c.lse[i] = stored[i / 20 * 20 + i % 5 * 4 + i / 5 % 4];
    }
    SECTION("key lengths") {
        c.lengths = {0, 4};
        CHECK(fake::refusal(with(c, "kv_lengths", tensor(c.lengths.data(), {2}))) == "");
    }
    SECTION("one key length for all") {
        c.lengths = {5, 5};
        CHECK(fake::refusal(with(c, "kv_lengths", tensor(c.lengths.data(), {1}))) == "");
    }
    c.expect_right_results();
}

TEST_CASE("empty calls are not errors") {
    fake::call c;
    fake::reset();
    SECTION("no batch, with null pointers") {
        c.batches = 0;
        c.fill();
        auto all = with(c, "q", tensor(static_cast<float*>(nullptr), {0, 4, 5, 8}));
        CHECK(fake::refusal(all) == "");
    }
    SECTION("no query") {
        c.queries = 0;
        c.fill();
        CHECK(fake::refusal(c.arguments()) == "");
    }
    int kernels = 0;
    SECTION("no key: the kernel runs, and reads nothing: rows of 0, log-sum-exp of -infinity") {
        kernels = 1;
        c.keys = 0;
        c.fill();
        auto all = with(c, "k", tensor(static_cast<const float*>(nullptr), {2, 2, 0, 8}));
        all[2].view = tensor(static_cast<const float*>(nullptr), {2, 2, 0, 4});
        CHECK(fake::refusal(all) == "");
        CHECK(std::all_of(c.out.begin(), c.out.end(), [](float x) { return x == 0; }));
        CHECK(std::all_of(c.lse.begin(), c.lse.end(),
                          [](float x) { return x == -std::numeric_limits<float>::infinity(); }));
    }
    SECTION("they are checked all the same") {
        c.queries = 0;
        c.fill();
        CHECK_THAT(fake::refusal(with(c, "k", tensor(c.k.data(), {2, 3, 7, 8}))), ContainsSubstring("key_head extent"));
    }
    CHECK(fake::seen.calls == kernels);
}

TEST_CASE("tensors of the wrong shape are refused by the names of their axes") {
    fake::call c;
    float* const x = c.q.data();
    check_refused(c, with(c, "q", tensor(x, {4, 5, 8})), "q with 4 axes (batch, head, query, depth)",
                  "3 axes in q: f32 (4, 5, 8)");
    check_refused(c, with(c, "slopes", tensor(x, {2, 4})), "slopes with 1 axis (head)", "2 axes");
    check_refused(c, with(c, "out", tensor(c.out.data(), {8, 5, 4})),
                  "out with 4 axes (batch, head, query, value_depth)");
    check_refused(c, with(c, "lse", tensor(c.lse.data(), {2, 4, 5, 1})), "lse with 3 axes (batch, head, query)");
    check_refused(c, with(c, "k", tensor(c.k.data(), {3, 2, 7, 8})), "batch extent 2 or 1 in k, as in q",
                  "k: f32 (3, 2, 7, 8)");
    check_refused(c, with(c, "k", tensor(c.k.data(), {2, 2, 7, 16})), "depth extent 8 in k, as in q");
    check_refused(c, with(c, "v", tensor(c.v.data(), {2, 2, 6, 4})), "key extent 7 in v, as in k");
    check_refused(c, with(c, "v", tensor(c.v.data(), {2, 1, 7, 4})), "key_head extent 2 in v, as in k");
    check_refused(c, with(c, "slopes", tensor(x, {3})), "head extent 4 or 1 in slopes, as in q", "slopes: f32 (3)");
    check_refused(c, with(c, "bias", tensor(c.bias.data(), {2, 4, 5, 6})), "key extent 7 or 1 in bias, as in k");
    check_refused(c, with(c, "is_global", tensor(c.is_global.data(), {6})),
                  "an extent of at least 7 (the longer of queries and keys) or 1 along position of is_global");
    check_refused(c, with(c, "table", tensor(c.table.data(), {0})), "at least one element along entries of table");
    check_refused(c, with(c, "out", tensor(c.out.data(), {2, 4, 5, 3})), "value_depth extent 4 in out");
    check_refused(c, with(c, "out", tensor(c.out.data(), {1, 4, 5, 4})), "batch extent 2 in out");
    check_refused(c, with(c, "lse", tensor(c.lse.data(), {2, 4, 4})), "query extent 5 in lse");
    check_refused(c, with(c, "q", tensor(x, {2, 4, -5, 8})), "an extent from 0 to 2147483647 along query of q", "-5");
    check_refused(c, with(c, "q", tensor(x, {2, 4, std::int64_t{1} << 31, 8})),
                  "an extent from 0 to 2147483647 along query of q");
    check_refused(c, with(c, "kv_lengths", tensor(c.table.data(), {3})), "batch extent 2 or 1 in kv_lengths");
}

TEST_CASE("head counts have to divide") {
    fake::call c;
    auto all = with(c, "k", tensor(c.k.data(), {2, 3, 4, 8}));
    all[2].view = tensor(c.v.data(), {2, 3, 4, 4});
    check_refused(c, all, "a number of heads in q that is a multiple of those in k", "4 and 3");
    all[1].view = tensor(c.k.data(), {2, 0, 4, 8});
    all[2].view = tensor(c.v.data(), {2, 0, 4, 4});
    check_refused(c, all, "a number of heads in q that is a multiple of those in k", "4 and 0");
}

TEST_CASE("strides that a kernel cannot use are refused") {
    fake::call c;
    check_refused(c, with(c, "q", tensor(c.q.data(), {2, 4, 5, 8}, {160, 40, 1, 5})), "a stride of 1 along depth of q",
                  "5 in q");
    check_refused(c, with(c, "out", tensor(c.out.data(), {2, 4, 5, 4}, {80, 20, 1, 5})),
                  "a stride of 1 along value_depth of out");
    // Of a single element no stride is looked at.
    check_refused(c, with(c, "k", tensor(c.k.data(), {2, 2, 7, 1}, {112, 56, 8, 5})), "depth extent 8 in k, as in q");
    check_refused(c, with(c, "k", tensor(c.k.data(), {2, 2, 7, 8}, {112, 56, std::int64_t{1} << 31, 1})),
                  "a stride of at most 2147483647 elements along key of k", "2147483648");
    check_refused(c, with(c, "k", tensor(c.k.data(), {2, 2, 7, 8}, {std::int64_t{1} << 36, 56, 8, 1})),
                  "a stride of at most 2147483647 elements along batch of k", "68719476736");
    check_refused(c, with(c, "k", tensor(c.k.data(), {2, 2, 7, 8}, {112, 56, (std::int64_t{1} << 31) - 1, 1})),
                  "at most 2147483647 elements from the first to the last along key of k");
    // Each axis of a head reaches less than 2^31 elements, and both together more.
    constexpr std::int64_t queries = 429000000, keys = 300000000;
    for (const std::int64_t sign : {1, -1})
        check_refused(c, with(c, "bias", tensor(c.bias.data(), {2, 4, 5, 7}, {0, 0, sign * queries, keys})),
                      "at most 2147483647 elements from the first to the last of bias",
                      std::to_string(1 + 4 * queries + 6 * keys) + " in bias: f32 (2, 4, 5, 7) with strides (0, 0, " +
                          std::to_string(sign * queries));
    check_refused(c, with(c, "out", tensor(c.out.data(), {2, 4, 5, 4}, {0, 20, 4, 1})),
                  "elements of out at distinct addresses", "strides (0, 20, 4, 1)");
    check_refused(c, with(c, "out", tensor(c.out.data(), {2, 4, 5, 4}, {80, 20, 3, 1})),
                  "elements of out at distinct addresses");
}

TEST_CASE("more elements than a kernel counts are refused, broadcast or not") {
    fake::call c;
    c.batches = 1, c.heads = c.key_heads = 64, c.queries = c.keys = 6000;
    std::vector<float> nothing(1);
    const auto view = [&](tensor::extent_list shape, tensor::extent_list strides) {
        return tensor(nothing.data(), shape, strides);
    };
    auto all = c.arguments();
    all[0].view = view({1, 64, 6000, 8}, {0, 0, 0, 1}), all[1].view = view({1, 64, 6000, 8}, {0, 0, 0, 1}),
    all[2].view = view({1, 64, 6000, 4}, {0, 0, 0, 1});
    all[3].view = view({1}, {1}), all[4].view = view({1, 1, 6000, 6000}, {0, 0, 0, 0}),
    all[5].view = tensor(c.is_global.data(), {1});
    std::vector<float> out(64 * 6000 * 4), lse(64 * 6000);
    all[9].view = tensor(out.data(), {1, 64, 6000, 4}), all[10].view = tensor(lse.data(), {1, 64, 6000});
    CHECK_THAT(fake::refusal(all),
               ContainsSubstring(
                   "expected at most 2147483647 elements in bias, axes of extent 1 that broadcast counted in full"));
}

TEST_CASE("element types that do not fit are refused") {
    fake::call c;
    check_refused(c, with(c, "slopes", tensor(c.table.data(), {1})), "f32 elements in slopes", "slopes: i32 (1)");
    check_refused(c, with(c, "is_global", tensor(c.q.data(), {7})), "boolean elements in is_global");
    check_refused(c, with(c, "lse", tensor(reinterpret_cast<attune::bfloat16*>(c.lse.data()), {2, 4, 5})),
                  "f32 elements in lse");
    check_refused(c, with(c, "kv_lengths", tensor(c.q.data(), {2})), "i32 elements in kv_lengths");
    check_refused(c, with(c, "k", tensor(reinterpret_cast<attune::bfloat16*>(c.k.data()), {2, 2, 7, 8})),
                  "element types that fake::variant was compiled for (f32; bf16)", "q:f32,k:bf16,v:f32,out:f32");
    check_refused(c, with(c, "out", tensor(reinterpret_cast<attune::float16*>(c.out.data()), {2, 4, 5, 4})),
                  "element types", "q:f32,k:f32,v:f32,out:f16");
}

TEST_CASE("depths that were not compiled are refused with those that were") {
    fake::call c;
    c.depth = 12;
    c.fill();
    check_refused(c, c.arguments(), "depths (depth x value depth) that fake::variant was compiled for (8x4; 16x16)",
                  "12x4");
}

TEST_CASE("pointers that cannot be right are refused") {
    fake::call c;
    check_refused(c, with(c, "k", tensor(static_cast<float*>(nullptr), {2, 2, 7, 8})), "a pointer to the elements of k",
                  "null for k: f32 (2, 2, 7, 8)");
    check_refused(c, with(c, "out", tensor(static_cast<float*>(nullptr), {2, 4, 5, 4})),
                  "a pointer to the elements of out");
    check_refused(c, with(c, "kv_lengths", tensor(static_cast<std::int32_t*>(nullptr), {2})),
                  "a pointer to the elements of kv_lengths");
    check_refused(c, with(c, "out", tensor(static_cast<const float*>(c.out.data()), {2, 4, 5, 4})),
                  "a tensor that may be written for out", "a view of const elements");
}

TEST_CASE("outputs apart from everything else in memory") {
    fake::call c;
    std::vector<float> shared(320 + 160);
    std::copy(c.q.begin(), c.q.end(), shared.begin());
    const tensor Q(shared.data(), {2, 4, 5, 8});
    for (const std::int64_t offset : {0, 100, 319}) {
        auto all = with(c, "q", Q);
        all[9].view = tensor(shared.data() + offset, {2, 4, 5, 4});
        check_refused(c, all, "out apart from q", "two tensors that overlap in memory");
    }
    auto beside = with(c, "q", Q);
    beside[9].view = tensor(shared.data() + 320, {2, 4, 5, 4});
    CHECK(fake::refusal(beside) == "");

    auto both = with(c, "lse", tensor(c.out.data() + 150, {2, 4, 5}));
    c.fill();
    c.out.resize(400, c.out[0]);
    both = with(c, "lse", tensor(c.out.data() + 150, {2, 4, 5}));
    check_refused(c, both, "lse apart from out");

    std::vector<float> reversed(100);
    auto backwards = with(c, "slopes", tensor(reversed.data() + 90, {4}, {-1}));
    backwards[10].view = tensor(reversed.data() + 48, {2, 4, 5});  // 48 .. 87; slopes 87 .. 90
    check_refused(c, backwards, "lse apart from slopes");
    backwards[10].view = tensor(reversed.data() + 47, {2, 4, 5});
    CHECK(fake::refusal(backwards) == "");
}

TEST_CASE("key lengths are within the keys") {
    fake::call c;
    for (const std::int32_t wrong : {-1, 8}) {
        c.lengths = {7, wrong};
        check_refused(c, with(c, "kv_lengths", tensor(c.lengths.data(), {2})), "kv_lengths from 0 to 7",
                      std::to_string(wrong) + " for batch element 1");
    }
}

TEST_CASE("names and scalars are checked again at run time") {
    fake::call c;
    auto all = c.arguments();
    all[3].name = "slope";
    check_refused(c, all, "one of q, k, ", "slope");
    all = c.arguments();
    all.push_back(all[0]);
    check_refused(c, all, "q once", "it twice");
    all = c.arguments();
    all.erase(all.begin() + 3);
    check_refused(c, all, "the input slopes of fake::variant", "none");
    all = c.arguments();
    all.pop_back();
    check_refused(c, all, "a tensor for the output lse", "none");
    all = c.arguments();
    all[7].is = named_argument::form::view;
    check_refused(c, all, "a number for w", "a tensor");
    all[7].is = named_argument::form::real;
    check_refused(c, all, "an integer for w");
    all[7].is = named_argument::form::integer, all[7].integer = std::int64_t{1} << 31;
    check_refused(c, all, "an integer of 32 bits for w", "2147483648");
    all = c.arguments();
    all[3].is = named_argument::form::real;
    check_refused(c, all, "a tensor for slopes");
}

TEST_CASE("a registry of another layout is refused") {
    fake::call c;
    attune::kernel_table other = fake::kernels();
    other.version = 99;
    try {
        attune::detail::call(other, c.arguments(), {});
        FAIL("not refused");
    } catch (const attune::error& e) {
        CHECK_THAT(e.what(),
                   ContainsSubstring("expected kernels of fake::variant built for layout " +
                                     std::to_string(attune::kernel_table_version) + ", got layout 99; try building"));
    }
}

TEST_CASE("the environment forces a level, options go first") {
    fake::call c;
    ::setenv("ATTUNE_TARGET", "x86-64-v9", 1);
    check_refused(c, c.arguments(), "one of the linked levels of fake::variant", "x86-64-v9");
    CHECK_THAT(
        fake::refusal(c.arguments(), {.target = "opencl"}),
        ContainsSubstring("expected a machine that runs opencl kernels, as attune::options asks, got opencl: lacks"));
    const std::string level = attune::kernels<fake::variant>().entries[1].target;
    CHECK(fake::refusal(c.arguments(), {.target = level}) == "");
    ::setenv("ATTUNE_TARGET", "", 1);
    CHECK(fake::refusal(c.arguments()) == "");
    ::unsetenv("ATTUNE_TARGET");
}
